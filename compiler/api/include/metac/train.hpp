// Data and the course of a training in C++20, for loops written as code, over the C interface of train.h, whose comments say
// what each thing is.
//
//   metac::Data data(R"({"format": "npz", "train": "train.npz"})",
//                    {{"image", METAC_FLOAT32, {1, 8, 8}}, {"label", METAC_INT64, {}}}, {.folder = "models/digits"});
//   metac::Loader loader(data, {.batch = 64});
//   metac::Run run("digits-run", loader, {.epochs = 20, .resume = true});
//   run.keep("w", w);
//   for (run.begin(); !run.finished(); run.end_epoch())
//     while (auto batch = run.next()) {
//       ...
//       run.step(loss, 0.001);
//     }
//
// Errors are exceptions, metac::Error of metac.hpp.
#pragma once
#include <map>
#include <optional>
#include <set>

#include "train.h"
#include "var.hpp"

namespace metac {

namespace detail {
template <auto free_it>
struct FreedBy {
  template <class T>
  void operator()(T* object) const {
    free_it(object);
  }
};
}  // namespace detail

// One for a process; finish() at the end.
class Processes {
 public:
  Processes() {
    metac_processes* opened = nullptr;
    detail::check(metac_processes_open(&opened));
    all_.reset(opened);
  }
  metac_processes* handle() const { return all_.get(); }
  int rank() const { return metac_processes_rank(handle()); }
  int size() const { return metac_processes_size(handle()); }
  std::vector<Var> average(const std::vector<Var>& vars, Place where = Place::current()) {
    const metac_site site = detail::site_of(where);
    std::vector<metac_var*> given, made(vars.size());
    for (const Var& var : vars) given.push_back(var.handle());
    detail::check(metac_processes_average(handle(), given.data(), static_cast<int32_t>(given.size()), made.data(), &site));
    return {made.begin(), made.end()};
  }
  std::vector<double> sum(std::vector<double> values) {
    detail::check(metac_processes_sum(handle(), values.data(), static_cast<int32_t>(values.size())));
    return values;
  }
  void finish() { detail::check(metac_processes_finish(handle())); }

 private:
  std::unique_ptr<metac_processes, detail::FreedBy<metac_processes_free>> all_;
};

// A value of the samples: the dims of one.
struct Field {
  std::string name;
  metac_dtype dtype = METAC_FLOAT32;
  std::vector<int64_t> dims;
};

struct DataOptions {
  std::string folder = ".";
  int64_t seed = 0;
};

class Data {
 public:
  Data(const std::string& data, std::vector<Field> fields, const DataOptions& options = {})
      : fields_(std::move(fields)), seed_(options.seed) {
    const std::vector<metac_tensor> types = this->types();
    metac_data* opened = nullptr;
    detail::check(metac_data_open(data.c_str(), options.folder.c_str(), seed_, types.data(),
                                  static_cast<int32_t>(types.size()), &opened));
    data_.reset(opened);
  }
  // Of arrays, which are copied; the first axis of each counts the samples.
  Data(const std::string& data, std::vector<Field> fields, const std::vector<Tensor>& arrays, int64_t seed = 0)
      : fields_(std::move(fields)), seed_(seed) {
    const std::vector<metac_tensor> types = this->types();
    std::vector<metac_tensor> given;
    for (const Tensor& array : arrays) given.push_back(array.c_tensor());
    metac_data* opened = nullptr;
    detail::check(metac_data_of_arrays(data.c_str(), given.data(), static_cast<int32_t>(given.size()), seed_, types.data(),
                                       static_cast<int32_t>(types.size()), &opened));
    data_.reset(opened);
  }
  metac_data* handle() const { return data_.get(); }
  const std::vector<Field>& fields() const { return fields_; }
  int64_t seed() const { return seed_; }
  int64_t samples(bool validation = false) const { return metac_data_samples(handle(), validation); }

 private:
  std::vector<metac_tensor> types() const {
    std::vector<metac_tensor> types;
    for (const Field& f : fields_)
      types.push_back({f.name.c_str(), nullptr, 0, f.dims.data(), static_cast<int32_t>(f.dims.size()), f.dtype});
    return types;
  }

  std::vector<Field> fields_;
  int64_t seed_;
  std::unique_ptr<metac_data, detail::FreedBy<metac_data_free>> data_;
};

struct Batch {
  std::map<std::string, Var> fields;
  int64_t valid = 0;  // the first so many samples count
  const Var& operator[](const std::string& name) const { return fields.at(name); }
};

struct LoaderOptions {
  int64_t batch = 32;  // samples, of this process
  bool validation = false;
  int threads = 0;
  Processes* processes = nullptr;
};

// The data must outlive it.
class Loader {
 public:
  explicit Loader(const Data& data, const LoaderOptions& options = {}) : data_(&data), batch_(options.batch) {
    const metac_loader_options given{sizeof given, options.batch, options.validation, options.threads,
                                     options.processes ? options.processes->handle() : nullptr};
    metac_loader* made = nullptr;
    detail::check(metac_loader_make(data.handle(), &given, &made));
    loader_.reset(made);
  }
  const Data& data() const { return *data_; }
  int64_t batch() const { return batch_; }
  int64_t batches() const { return metac_loader_batches(loader_.get()); }
  void start(int64_t epoch, int64_t batch = 0) { detail::check(metac_loader_start(loader_.get(), epoch, batch)); }
  Batch next() {
    std::vector<metac_var*> made(data_->fields().size());
    Batch batch;
    detail::check(metac_loader_next(loader_.get(), made.data(), static_cast<int32_t>(made.size()), &batch.valid));
    for (size_t f = 0; f < made.size(); ++f) batch.fields.emplace(data_->fields()[f].name, Var(made[f]));
    return batch;
  }

 private:
  const Data* data_;
  int64_t batch_;
  std::unique_ptr<metac_loader, detail::FreedBy<metac_loader_free>> loader_;
};

// The learning rate of an update, by a recipe's schedule in JSON.
class Schedule {
 public:
  Schedule(const std::string& schedule, double rate, int64_t updates, double per_epoch = 1) {
    metac_schedule* made = nullptr;
    detail::check(metac_schedule_make(schedule.c_str(), rate, updates, per_epoch, &made));
    schedule_.reset(made);
  }
  double operator()(int64_t update) const {
    double rate = 0;
    detail::check(metac_schedule_rate(schedule_.get(), update, &rate));
    return rate;
  }

 private:
  std::unique_ptr<metac_schedule, detail::FreedBy<metac_schedule_free>> schedule_;
};

struct RunOptions {
  int64_t epochs = 10, accumulate = 1, checkpoint_every = 0, checkpoints_kept = 2, log_every = 1, patience = 0;
  std::string name = "run", about = {};
  std::vector<std::pair<std::string, bool>> metrics = {};  // names, and whether greater is better
  int watched = 0;                                         // a metric from 1; 0: the loss
  bool resume = false, restart = false, strict = false, quiet = false, catch_signals = false;
  Processes* processes = nullptr;
  // "skip": a step with NaN or infinity is left out, and what the run keeps is what it was when next() gave the batch.
  std::string non_finite = "stop";
};

// The loader must outlive it.
class Run {
 public:
  Run(const std::string& folder, Loader& loader, const RunOptions& options = {}) : loader_(&loader) {
    std::vector<metac_run_metric> metrics;
    for (const auto& [name, greater] : options.metrics) metrics.push_back({name.c_str(), greater});
    metac_run_options o{};
    o.size = sizeof o;
    o.folder = folder.c_str(), o.name = options.name.c_str(), o.about = options.about.c_str();
    o.metrics = metrics.data(), o.metric_count = static_cast<int32_t>(metrics.size()), o.watched = options.watched;
    o.seed = loader.data().seed(), o.epochs = options.epochs, o.batches = loader.batches(), o.batch = loader.batch();
    o.accumulate = options.accumulate, o.checkpoint_every = options.checkpoint_every;
    o.checkpoints_kept = options.checkpoints_kept, o.log_every = options.log_every, o.patience = options.patience;
    o.resume = options.resume, o.restart = options.restart, o.strict = options.strict, o.quiet = options.quiet;
    o.catch_signals = options.catch_signals;
    o.processes = options.processes ? options.processes->handle() : nullptr;
    o.non_finite = options.non_finite.c_str();
    metac_run* opened = nullptr;
    detail::check(metac_run_open(&o, &opened));
    run_.reset(opened);
    if (options.processes) rank_ = options.processes->rank();
  }
  metac_run* handle() const { return run_.get(); }
  void keep(const std::string& name, const Var& var, bool statistic = false) {
    detail::check(metac_run_keep(handle(), name.c_str(), var.handle(), statistic));
  }
  // The optimiser must outlive the run; names are those of its parameters.
  void keep(metac_optimiser* optimiser, const std::vector<std::string>& names) {
    std::vector<const char*> given;
    for (const std::string& name : names) given.push_back(name.c_str());
    detail::check(metac_run_keep_optimiser(handle(), optimiser, given.data(), static_cast<int32_t>(given.size())));
  }
  // A module of nn.hpp, or an optimiser of optim.hpp, which must outlive the run: names are the paths, behind `prefix`.
  // Several processes average the gradients of kept optimisers and the states of modules (running means); each drops other
  // elements.
  template <class Module>
  requires requires(const Module& module) { module.draws(); }
  void keep(const Module& module, const std::string& prefix = "") {
    std::set<const metac_var*> trained;
    for (const auto& [path, var] : module.parameters(false)) trained.insert(var.handle());
    for (const auto& [path, var] : module.parameters(true)) keep(prefix + path, var, trained.count(var.handle()) == 0);
    for (const auto& [path, draws] : module.draws()) {
      calls_.emplace_back(prefix + path, std::shared_ptr<int64_t>(draws, &draws->calls));
      draws->seed = (draws->seed + rank_) % (int64_t{1} << 31);
    }
  }
  template <class Optimiser>
  requires requires(const Optimiser& optimiser) {
    { optimiser.handle() } -> std::convertible_to<metac_optimiser*>;
  }
  void keep(const Optimiser& optimiser, const std::string& prefix = "") {
    std::vector<std::string> names;
    for (const auto& [path, var] : optimiser.parameters()) names.push_back(prefix + path);
    keep(optimiser.handle(), names);
  }
  // True: it resumed.
  bool begin() {
    int32_t resumed = 0;
    tell_calls();
    detail::check(metac_run_begin(handle(), &resumed));
    for (const auto& [name, calls] : calls_) detail::check(metac_run_number(handle(), name.c_str(), calls.get(), 0));
    return resumed != 0;
  }
  metac_run_place place() const {
    metac_run_place now{};
    now.size = sizeof now;
    detail::check(metac_run_get_place(handle(), &now));
    return now;
  }
  bool finished() const { return place().finished != 0; }
  // The next batch of this epoch, none at its end.
  std::optional<Batch> next() {
    const metac_run_place now = place();
    if (now.batch >= now.batches) return std::nullopt;
    if (now.epoch != epoch_ || now.batch != batch_) loader_->start(now.epoch, now.batch);
    epoch_ = now.epoch, batch_ = now.batch + 1;
    detail::check(metac_run_before_step(handle()));
    return loader_->next();
  }
  // The signal that came, after which a checkpoint was written; else 0.
  int step(const Var& loss, double rate, const std::vector<Var>& metrics = {}, Place where = Place::current()) {
    const metac_site site = detail::site_of(where);
    tell_calls();
    std::vector<metac_var*> given;
    for (const Var& metric : metrics) given.push_back(metric.handle());
    int32_t interrupted = 0;
    detail::check(metac_run_step(handle(), loss.handle(), given.data(), static_cast<int32_t>(given.size()), rate,
                                 &interrupted, &site));
    return interrupted;
  }
  // scores: loss and metrics on the validation data. True: the best epoch so far.
  bool end_epoch(const std::vector<double>& scores = {}) {
    int32_t best = 0;
    detail::check(
        metac_run_end_epoch(handle(), scores.empty() ? nullptr : scores.data(), static_cast<int32_t>(scores.size()), &best));
    return best != 0;
  }
  void save() { detail::check(metac_run_save(handle())); }
  void load_best() { detail::check(metac_run_load_best(handle())); }

 private:
  void tell_calls() {
    for (const auto& [name, calls] : calls_) detail::check(metac_run_number(handle(), name.c_str(), calls.get(), 1));
  }

  Loader* loader_;
  int rank_ = 0;
  std::vector<std::pair<std::string, std::shared_ptr<int64_t>>> calls_;  // of modules that draw random numbers
  int64_t epoch_ = -1, batch_ = -1;                                      // that the loader stands at
  std::unique_ptr<metac_run, detail::FreedBy<metac_run_close>> run_;
};

}  // namespace metac
