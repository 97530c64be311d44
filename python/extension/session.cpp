#include "python/extension/session.h"

#include <optional>
#include <utility>

#include "python/extension/element_types.h"
#include "python/extension/failure.h"
#include "python/extension/process.h"
#include "python/extension/result_array.h"

namespace metac_python {
namespace {

// Names need not be UTF-8; as for file names, what is not comes back as it was.
py::object text_of(const char* text) {
  PyObject* decoded =
      PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::char_traits<char>::length(text)), "surrogateescape");
  if (!decoded) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(decoded);
}

std::string bytes_of(py::handle name, const char* what) {
  if (!PyUnicode_Check(name.ptr()))
    raise_dtype_error("the name of an " + std::string(what) + " is " + std::string(py::repr(name)) + "; it must be a str");
  auto encoded = py::reinterpret_steal<py::bytes>(PyUnicode_AsEncodedString(name.ptr(), "utf-8", "surrogateescape"));
  if (!encoded) throw py::error_already_set();
  std::string bytes = encoded;
  if (bytes.find('\0') != std::string::npos)
    throw Failure{METAC_INVALID_ARGUMENT, "there is no " + std::string(what) + " " + std::string(py::repr(name))};
  return bytes;
}

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

// The tensors of arrays, gathered: valid while the arrays are. Needs no lock of the interpreter.
std::vector<metac_tensor> gathered(const std::vector<std::unique_ptr<GivenArray>>& arrays) {
  std::vector<metac_tensor> tensors;
  tensors.reserve(arrays.size());
  for (const auto& array : arrays) {
    array->gather();
    tensors.push_back(array->tensor());
  }
  return tensors;
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
                 const std::string& target)
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
  for (int32_t i = 0; const metac_port* port = metac_session_input(opened, i); ++i) input_dtypes_[port->name] = port->dtype;
  for (int32_t i = 0; const metac_port* port = metac_session_output(opened, i); ++i)
    output_names_.push_back(text_of(port->name));
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

std::vector<std::unique_ptr<GivenArray>> Session::arrays_of(py::handle given, const char* what) const {
  if (!PyMapping_Check(given.ptr()) || !py::hasattr(given, "items"))
    raise_dtype_error(std::string(what) + "s are {name: array}, given is " + Py_TYPE(given.ptr())->tp_name);
  const auto items = py::reinterpret_steal<py::list>(PyMapping_Items(given.ptr()));
  if (!items) throw py::error_already_set();
  std::vector<std::unique_ptr<GivenArray>> arrays;
  arrays.reserve(items.size());
  for (const py::handle item : items) {
    std::string name = bytes_of(item.cast<py::tuple>()[0], what);
    int32_t dtype = -1;
    if (what == std::string_view("input"))
      if (const auto found = input_dtypes_.find(name); found != input_dtypes_.end()) dtype = found->second;
    arrays.push_back(std::make_unique<GivenArray>(what, std::move(name), item.cast<py::tuple>()[1], dtype));
  }
  return arrays;
}

py::list Session::run(py::handle inputs) {
  const Shared session = usable();
  const auto arrays = arrays_of(inputs, "input");
  metac_result* answered = nullptr;
  {
    const py::gil_scoped_release unlocked;
    const std::vector<metac_tensor> tensors = gathered(arrays);
    check(metac_session_run(session.get(), tensors.data(), static_cast<int32_t>(tensors.size()), &answered));
  }
  const Result result = owned(answered);
  py::list outputs;
  for (int32_t i = 0; const metac_tensor* output = metac_result_output(answered, i); ++i)
    outputs.append(py::make_tuple(output_names_.at(static_cast<size_t>(i)), ResultArray(result, output)));
  return outputs;
}

void Session::set_weights(py::handle weights) {
  const Shared session = usable();
  const auto arrays = arrays_of(weights, "weight");
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
#undef METAC_TELL
  return told;
}

void Session::close() { std::exchange(session_, nullptr).reset(); }

void define_session(py::module_& module) {
  py::class_<Session>(module, "Session")
      .def(py::init<py::object, py::object, const std::string&, int64_t, int64_t, int64_t, int64_t, const py::list&,
                    const std::string&, const std::string&>())
      .def("inputs", &Session::inputs)
      .def("outputs", &Session::outputs)
      .def("run", &Session::run)
      .def("set_weights", &Session::set_weights)
      .def("wait", &Session::wait)
      .def("report", &Session::report)
      .def("close", &Session::close)
      .def("closed", &Session::closed);
}

}  // namespace metac_python
