#include "python/extension/session.h"

#include <pybind11/stl.h>

#include <optional>
#include <utility>

#include "python/extension/element_types.h"
#include "python/extension/failure.h"
#include "python/extension/process.h"
#include "python/extension/result_array.h"

namespace metac_python {
namespace {

int32_t in_int32(const char* name, int64_t value) {
  if (value < 0 || value > INT32_MAX)
    throw Failure{METAC_INVALID_ARGUMENT, std::string(name) + " is " + std::to_string(value) + "; it must be 0 or more"};
  return static_cast<int32_t>(value);
}

py::list described(const metac_session* session, const metac_port* (*at)(const metac_session*, int32_t)) {
  py::list ports;
  for (int32_t i = 0; const metac_port* port = at(session, i); ++i) {
    py::object dtype = py::none(), shape = py::none();
    if (port->dtype >= 0) dtype = py::str(std::string(element_type(port->dtype).name));
    if (port->rank >= 0) {
      py::tuple dims(port->rank);
      for (int32_t k = 0; k < port->rank; ++k) {
        const char* symbol = port->dim_names[k];
        dims[k] = port->dims[k] >= 0  ? py::object(py::int_(port->dims[k]))
                  : symbol && *symbol ? text_of(symbol)
                                      : py::none();
      }
      shape = dims;
    }
    ports.append(py::make_tuple(text_of(port->name), dtype, shape));
  }
  return ports;
}

// By the last one to hold a session: close() or a call beside it. Closing waits for threads.
void close_unlocked(metac_session* session) {
  std::optional<py::gil_scoped_release> unlocked;
  if (PyGILState_Check()) unlocked.emplace();
  metac_session_close(session);
}

}  // namespace

Session::Session(py::object path, py::object contents, const std::string& specialise, int64_t threads, int64_t max_contexts,
                 int64_t max_specialisations, int64_t max_memory, const py::list& dims, const std::string& cpu,
                 const std::string& target, py::handle states, const std::vector<std::string>& ops,
                 const std::string& precision)
    : generation_(process_generation()) {
  std::vector<std::string> names;
  std::vector<metac_dim> declared;
  names.reserve(dims.size());
  for (const py::handle dim : dims) {
    const auto fields = dim.cast<py::tuple>();
    names.push_back(bytes_of(fields[0], "open dim"));
    declared.push_back(
        {names.back().c_str(), fields[1].cast<int64_t>(), fields[2].cast<int64_t>(), fields[3].cast<int64_t>()});
  }
  metac_session_options options{};
  options.size = sizeof options;
  options.specialise = specialise.c_str();
  options.threads = in_int32("threads", threads);
  options.max_contexts = in_int32("max_contexts", max_contexts);
  options.max_specialisations = in_int32("max_specialisations", max_specialisations);
  options.max_memory = max_memory;
  options.dim_count = in_int32("dims", static_cast<int64_t>(declared.size()));
  options.dims = declared.data();
  options.cpu = cpu.c_str();
  options.target = target.c_str();
  options.precision = precision.c_str();
  std::vector<std::pair<std::string, std::string>> state_names;
  std::vector<metac_state> declared_states;
  options.known_states = py::isinstance<py::str>(states) ? 1 : 0;
  if (!options.known_states)
    for (const py::handle state : states) {
      const auto fields = state.cast<py::tuple>();
      state_names.emplace_back(bytes_of(fields[0], "state"), bytes_of(fields[1], "state"));
    }
  for (const auto& [input, output] : state_names) declared_states.push_back({input.c_str(), output.c_str()});
  options.states = declared_states.data();
  options.state_count = in_int32("states", static_cast<int64_t>(declared_states.size()));
  std::vector<const char*> files;
  for (const std::string& file : ops) files.push_back(file.c_str());
  options.ops = files.data();
  options.ops_count = in_int32("ops", static_cast<int64_t>(files.size()));
  metac_session* opened = nullptr;
  if (path.is_none()) {
    const py::buffer_info model = contents.cast<py::buffer>().request();
    const py::gil_scoped_release unlocked;
    check(metac_session_open_memory(model.ptr, static_cast<size_t>(model.size * model.itemsize), &options, &opened));
  } else {
    const std::string name = path.cast<std::string>();
    if (name.find('\0') != std::string::npos) throw Failure{METAC_INVALID_ARGUMENT, "the path holds a null character"};
    const py::gil_scoped_release unlocked;
    check(metac_session_open(name.c_str(), &options, &opened));
  }
  // In a child of fork the threads that closing waits for are not there: the session is left as it is.
  session_ = Shared(opened, [generation = generation_](metac_session* closed) {
    if (generation == process_generation()) close_unlocked(closed);
  });
  for (const auto at : {metac_session_input, metac_session_state})
    for (int32_t i = 0; const metac_port* port = at(opened, i); ++i) ports_.dtypes[port->name] = port->dtype;
  for (int32_t i = 0; const metac_port* port = metac_session_output(opened, i); ++i)
    ports_.output_names.push_back(text_of(port->name));
}

Session::Shared Session::usable() const {
  if (!session_) throw Failure{METAC_INVALID_ARGUMENT, "the session is closed"};
  if (generation_ != process_generation())
    throw Failure{METAC_UNSUPPORTED,
                  "the session was opened before this process was forked, and its threads are not here: "
                  "open a session in this process"};
  return session_;
}

py::list Session::inputs() const { return described(usable().get(), metac_session_input); }
py::list Session::outputs() const { return described(usable().get(), metac_session_output); }
py::list Session::states() const { return described(usable().get(), metac_session_state); }

py::list Session::run(py::handle inputs) {
  const Shared session = usable();
  const GivenArrays arrays = arrays_of(inputs, "input", &ports_);
  metac_result* answered = nullptr;
  {
    const py::gil_scoped_release unlocked;
    const std::vector<metac_tensor> tensors = gathered(arrays);
    check(metac_session_run(session.get(), tensors.data(), static_cast<int32_t>(tensors.size()), &answered));
  }
  return outputs_of(answered, ports_);
}

Stream Session::stream() const {
  const Shared session = usable();
  metac_stream* opened = nullptr;
  check(metac_stream_open(session.get(), &opened));
  return Stream(session, opened, ports_);
}

void Session::set_weights(py::handle weights) {
  const Shared session = usable();
  const GivenArrays arrays = arrays_of(weights, "weight", nullptr);
  const py::gil_scoped_release unlocked;
  const std::vector<metac_tensor> tensors = gathered(arrays);
  check(metac_session_set_weights(session.get(), tensors.data(), static_cast<int32_t>(tensors.size())));
}

void Session::wait() {
  const Shared session = usable();
  const py::gil_scoped_release unlocked;
  check(metac_session_wait(session.get()));
}

py::dict Session::report() const {
  const Shared session = usable();
  metac_session_report report{};
  report.size = sizeof report;
  check(metac_session_get_report(session.get(), &report));
  py::dict told;
#define METAC_TELL(field) told[#field] = report.field
  METAC_TELL(runs);
  METAC_TELL(open_runs);
  METAC_TELL(compiled);
  METAC_TELL(dropped);
  METAC_TELL(waiting);
  METAC_TELL(specialisations);
  METAC_TELL(contexts);
  METAC_TELL(threads);
  METAC_TELL(weight_bytes);
  METAC_TELL(working_bytes);
  METAC_TELL(specialised_bytes);
  METAC_TELL(streams);
  METAC_TELL(state_bytes);
#undef METAC_TELL
  return told;
}

void Session::close() { std::exchange(session_, nullptr).reset(); }

void define_session(py::module_& module) {
  py::class_<Session>(module, "Session")
      .def(py::init<py::object, py::object, const std::string&, int64_t, int64_t, int64_t, int64_t, const py::list&,
                    const std::string&, const std::string&, py::handle,
                    const std::vector<std::string>&, const std::string&>())
      .def("inputs", &Session::inputs)
      .def("outputs", &Session::outputs)
      .def("states", &Session::states)
      .def("run", &Session::run)
      .def("stream", &Session::stream)
      .def("set_weights", &Session::set_weights)
      .def("wait", &Session::wait)
      .def("report", &Session::report)
      .def("close", &Session::close)
      .def("closed", &Session::closed);
}

}  // namespace metac_python
