#include "python/extension/call.h"

#include "python/extension/failure.h"

namespace metac_python {

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

std::vector<metac_tensor> gathered(const GivenArrays& arrays) {
  std::vector<metac_tensor> tensors;
  tensors.reserve(arrays.size());
  for (const auto& array : arrays) {
    array->gather();
    tensors.push_back(array->tensor());
  }
  return tensors;
}

GivenArrays arrays_of(py::handle given, const char* what, const Ports* ports) {
  if (!PyMapping_Check(given.ptr()) || !py::hasattr(given, "items"))
    raise_dtype_error(std::string(what) + "s are {name: array}, given is " + Py_TYPE(given.ptr())->tp_name);
  const auto items = py::reinterpret_steal<py::list>(PyMapping_Items(given.ptr()));
  if (!items) throw py::error_already_set();
  GivenArrays arrays;
  arrays.reserve(items.size());
  for (const py::handle item : items) {
    std::string name = bytes_of(item.cast<py::tuple>()[0], what);
    int32_t dtype = -1;
    if (ports)
      if (const auto found = ports->dtypes.find(name); found != ports->dtypes.end()) dtype = found->second;
    arrays.push_back(std::make_unique<GivenArray>(what, std::move(name), item.cast<py::tuple>()[1], dtype));
  }
  return arrays;
}

py::list outputs_of(metac_result* answered, const Ports& ports) {
  const Result result = owned(answered);
  py::list outputs;
  for (int32_t i = 0; const metac_tensor* output = metac_result_output(answered, i); ++i)
    outputs.append(py::make_tuple(ports.output_names.at(static_cast<size_t>(i)), ResultArray(result, output)));
  return outputs;
}

}  // namespace metac_python
