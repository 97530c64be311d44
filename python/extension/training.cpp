#include "python/extension/training.h"

#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "metac/train.h"
#include "python/extension/call_site.h"
#include "python/extension/failure.h"
#include "python/extension/given_array.h"
#include "python/extension/optimiser.h"
#include "python/extension/var_type.h"

namespace metac_python {
namespace {

template <auto free_it>
struct FreedBy {
  template <class T>
  void operator()(T* object) const {
    free_it(object);
  }
};

// A call during which other threads of Python may run.
template <class Call>
void check_unlocked(Call call) {
  metac_status status;
  std::string message;
  {
    const py::gil_scoped_release unlocked;
    status = call();
    if (status != METAC_OK) message = metac_last_error();
  }
  if (status != METAC_OK) throw Failure{status, message};
}

class Processes {
 public:
  Processes() {
    metac_processes* opened = nullptr;
    check_unlocked([&] { return metac_processes_open(&opened); });
    all_.reset(opened);
  }
  metac_processes* get() const { return all_.get(); }
  int32_t rank() const { return metac_processes_rank(get()); }
  int32_t size() const { return metac_processes_size(get()); }
  py::list average(const py::list& vars) {
    std::vector<metac_var*> handles = handles_of(vars), made(handles.size());
    const metac_site site = call_site();
    const auto count = static_cast<int32_t>(handles.size());
    check_unlocked([&] { return metac_processes_average(get(), handles.data(), count, made.data(), &site); });
    py::list means;
    for (metac_var* var : made) means.append(held_var(var));
    return means;
  }
  std::vector<double> sum(std::vector<double> values) {
    check_unlocked([&] { return metac_processes_sum(get(), values.data(), static_cast<int32_t>(values.size())); });
    return values;
  }
  void finish() {
    check_unlocked([&] { return metac_processes_finish(get()); });
  }

 private:
  std::unique_ptr<metac_processes, FreedBy<metac_processes_free>> all_;
};

struct FieldType {
  std::string name;
  int32_t dtype;
  std::vector<int64_t> dims;
};

std::vector<metac_tensor> tensors_of(const std::vector<FieldType>& fields) {
  std::vector<metac_tensor> tensors;
  for (const FieldType& f : fields)
    tensors.push_back({f.name.c_str(), nullptr, 0, f.dims.data(), static_cast<int32_t>(f.dims.size()), f.dtype});
  return tensors;
}

class Data {
 public:
  // arrays None: files in `folder`.
  Data(const std::string& text, const std::string& folder, py::handle arrays, int64_t seed,
       const std::vector<std::tuple<std::string, int32_t, std::vector<int64_t>>>& fields) {
    for (const auto& [name, dtype, dims] : fields) fields_.push_back({name, dtype, dims});
    const std::vector<metac_tensor> types = tensors_of(fields_);
    const auto count = static_cast<int32_t>(types.size());
    metac_data* opened = nullptr;
    if (arrays.is_none()) {
      check_unlocked([&] { return metac_data_open(text.c_str(), folder.c_str(), seed, types.data(), count, &opened); });
    } else {
      std::vector<std::unique_ptr<GivenArray>> given;
      std::vector<metac_tensor> tensors;
      for (const auto& [name, value] : arrays.cast<py::dict>()) {
        given.push_back(std::make_unique<GivenArray>("array", name.cast<std::string>(), value, -1));
        given.back()->gather();
        tensors.push_back(given.back()->tensor());
      }
      check_unlocked([&] {
        return metac_data_of_arrays(text.c_str(), tensors.data(), static_cast<int32_t>(tensors.size()), seed, types.data(),
                                    count, &opened);
      });
    }
    data_.reset(opened);
  }
  metac_data* get() const { return data_.get(); }
  int64_t samples(bool validation) const { return metac_data_samples(get(), validation); }
  std::vector<std::string> classes() const {
    std::vector<std::string> names;
    while (const char* name = metac_data_class(get(), static_cast<int32_t>(names.size()))) names.emplace_back(name);
    return names;
  }
  const std::vector<FieldType>& fields() const { return fields_; }

 private:
  std::vector<FieldType> fields_;
  std::unique_ptr<metac_data, FreedBy<metac_data_free>> data_;
};

class Loader {
 public:
  Loader(Data& data, int64_t batch, bool validation, int32_t threads, const Processes* processes) : data_(data) {
    const metac_loader_options options{sizeof options, batch, validation, threads, processes ? processes->get() : nullptr};
    metac_loader* made = nullptr;
    check_unlocked([&] { return metac_loader_make(data.get(), &options, &made); });
    loader_.reset(made);
  }
  int64_t batches() const { return metac_loader_batches(loader_.get()); }
  void start(int64_t epoch, int64_t batch) {
    check_unlocked([&] { return metac_loader_start(loader_.get(), epoch, batch); });
  }
  // ({name: Var}, the number of samples that count).
  py::tuple next() {
    std::vector<metac_var*> made(data_.fields().size());
    int64_t valid = 0;
    check_unlocked([&] { return metac_loader_next(loader_.get(), made.data(), static_cast<int32_t>(made.size()), &valid); });
    py::dict batch;
    for (size_t f = 0; f < made.size(); ++f) batch[py::str(data_.fields()[f].name)] = held_var(made[f]);
    return py::make_tuple(batch, valid);
  }

 private:
  Data& data_;  // kept alive by keep_alive below
  std::unique_ptr<metac_loader, FreedBy<metac_loader_free>> loader_;
};

class Schedule {
 public:
  Schedule(const std::string& text, double rate, int64_t updates, double per_epoch) {
    metac_schedule* made = nullptr;
    check(metac_schedule_make(text.c_str(), rate, updates, per_epoch, &made));
    schedule_.reset(made);
  }
  double rate(int64_t update) const {
    double rate = 0;
    check(metac_schedule_rate(schedule_.get(), update, &rate));
    return rate;
  }

 private:
  std::unique_ptr<metac_schedule, FreedBy<metac_schedule_free>> schedule_;
};

class Run {
 public:
  Run(const std::string& folder, const std::string& name, const std::string& about,
      const std::vector<std::pair<std::string, bool>>& metrics, int32_t watched, const std::vector<int64_t>& numbers,
      const std::vector<bool>& flags, const Processes* processes, const std::string& non_finite) {
    std::vector<metac_run_metric> given;
    for (const auto& [metric, greater] : metrics) given.push_back({metric.c_str(), greater});
    metac_run_options o{};
    o.size = sizeof o;
    o.folder = folder.c_str(), o.name = name.c_str(), o.about = about.c_str();
    o.metrics = given.data(), o.metric_count = static_cast<int32_t>(given.size()), o.watched = watched;
    o.seed = numbers.at(0), o.epochs = numbers.at(1), o.batches = numbers.at(2), o.batch = numbers.at(3);
    o.accumulate = numbers.at(4), o.checkpoint_every = numbers.at(5), o.checkpoints_kept = numbers.at(6);
    o.log_every = numbers.at(7), o.patience = numbers.at(8);
    o.resume = flags.at(0), o.restart = flags.at(1), o.strict = flags.at(2), o.quiet = flags.at(3);
    o.catch_signals = flags.at(4), o.non_finite = non_finite.c_str();
    o.processes = processes ? processes->get() : nullptr;
    metac_run* opened = nullptr;
    check(metac_run_open(&o, &opened));
    run_.reset(opened);
  }
  void keep(const std::string& name, py::handle var, bool statistic) {
    check(metac_run_keep(open(), name.c_str(), var_handle(var), statistic));
  }
  void keep_optimiser(Optimiser& optimiser, const std::vector<std::string>& names) {
    std::vector<const char*> given;
    for (const std::string& name : names) given.push_back(name.c_str());
    check(metac_run_keep_optimiser(open(), optimiser.get(), given.data(), static_cast<int32_t>(given.size())));
  }
  int64_t number(const std::string& name) {
    int64_t value = 0;
    check(metac_run_number(open(), name.c_str(), &value, 0));
    return value;
  }
  void set_number(const std::string& name, int64_t value) { check(metac_run_number(open(), name.c_str(), &value, 1)); }
  bool begin() {
    int32_t resumed = 0;
    check_unlocked([&] { return metac_run_begin(open(), &resumed); });
    return resumed != 0;
  }
  py::dict place() const {
    metac_run_place now{};
    now.size = sizeof now;
    check(metac_run_get_place(open(), &now));
    py::dict told;
    told["update"] = now.update, told["epoch"] = now.epoch, told["batch"] = now.batch, told["epochs"] = now.epochs;
    told["batches"] = now.batches, told["best_epoch"] = now.best_epoch, told["best"] = now.best;
    told["finished"] = now.finished != 0, told["skipped"] = now.skipped;
    return told;
  }
  int32_t step(py::handle loss, const py::list& metrics, double rate) {
    metac_var* const own = var_handle(loss);
    const std::vector<metac_var*> handles = handles_of(metrics);
    const metac_site site = call_site();
    int32_t interrupted = 0;
    check_unlocked([&] {
      return metac_run_step(open(), own, handles.data(), static_cast<int32_t>(handles.size()), rate, &interrupted, &site);
    });
    return interrupted;
  }
  void before_step() { check(metac_run_before_step(open())); }
  bool end_epoch(const std::optional<std::vector<double>>& scores) {
    int32_t best = 0;
    check_unlocked([&] {
      return metac_run_end_epoch(open(), scores ? scores->data() : nullptr,
                                 scores ? static_cast<int32_t>(scores->size()) : 0, &best);
    });
    return best != 0;
  }
  void save() {
    check_unlocked([&] { return metac_run_save(open()); });
  }
  void load_best() {
    check_unlocked([&] { return metac_run_load_best(open()); });
  }
  void close() { run_.reset(); }

 private:
  metac_run* open() const {
    if (!run_) throw Failure{METAC_INVALID_ARGUMENT, "the run is closed"};
    return run_.get();
  }
  std::unique_ptr<metac_run, FreedBy<metac_run_close>> run_;
};

}  // namespace

void define_training(py::module_& module) {
  py::class_<Processes>(module, "Processes")
      .def(py::init<>())
      .def_property_readonly("rank", &Processes::rank)
      .def_property_readonly("size", &Processes::size)
      .def("average", &Processes::average)
      .def("sum", &Processes::sum)
      .def("finish", &Processes::finish);
  py::class_<Data>(module, "Data")
      .def(py::init<const std::string&, const std::string&, py::handle, int64_t,
                    const std::vector<std::tuple<std::string, int32_t, std::vector<int64_t>>>&>())
      .def("samples", &Data::samples)
      .def("classes", &Data::classes);
  py::class_<Loader>(module, "Loader")
      .def(py::init<Data&, int64_t, bool, int32_t, const Processes*>(), py::keep_alive<1, 2>(), py::keep_alive<1, 6>())
      .def("batches", &Loader::batches)
      .def("start", &Loader::start)
      .def("next", &Loader::next);
  py::class_<Schedule>(module, "Schedule")
      .def(py::init<const std::string&, double, int64_t, double>())
      .def("rate", &Schedule::rate);
  py::class_<Run>(module, "Run")
      .def(py::init<const std::string&, const std::string&, const std::string&,
                    const std::vector<std::pair<std::string, bool>>&, int32_t, const std::vector<int64_t>&,
                    const std::vector<bool>&, const Processes*, const std::string&>(),
           py::keep_alive<1, 9>())
      .def("keep", &Run::keep)
      .def("keep_optimiser", &Run::keep_optimiser, py::keep_alive<1, 2>())
      .def("number", &Run::number)
      .def("set_number", &Run::set_number)
      .def("begin", &Run::begin)
      .def("place", &Run::place)
      .def("step", &Run::step)
      .def("before_step", &Run::before_step)
      .def("end_epoch", &Run::end_epoch)
      .def("save", &Run::save)
      .def("load_best", &Run::load_best)
      .def("close", &Run::close);
}

}  // namespace metac_python
