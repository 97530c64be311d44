#include "python/extension/failure.h"

namespace metac_python {
namespace {

// Messages quote names of the model, which need not be UTF-8.
py::object text_of(const std::string& message) {
  return py::reinterpret_steal<py::object>(
      PyUnicode_DecodeUTF8(message.data(), static_cast<Py_ssize_t>(message.size()), "replace"));
}

void raise_object(const py::object& error) {
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
}

}  // namespace

void raise_dtype_error(const std::string& message) {
  raise_object(py::module_::import("metac.errors").attr("DTypeError")(text_of(message)));
  throw py::error_already_set();
}

void set_error(int status, const std::string& message) noexcept {
  try {
    raise_object(py::module_::import("metac.errors").attr("of_status")(status, text_of(message)));
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (...) {
    PyErr_NoMemory();
  }
}

void register_failures() {
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Failure& failure) {
      raise_object(py::module_::import("metac.errors").attr("of_status")(failure.status, text_of(failure.message)));
    }
  });
}

}  // namespace metac_python
