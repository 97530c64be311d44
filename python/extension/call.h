// What calls of sessions and streams have in common: names, arrays in, arrays out.
#pragma once
#include <pybind11/pybind11.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "metac/metac.h"
#include "python/extension/given_array.h"
#include "python/extension/result_array.h"

namespace metac_python {

namespace py = pybind11;

// Names need not be UTF-8; as for file names, what is not comes back as it was.
py::object text_of(const char* text);
// what: "input", "open dim", ... in messages.
std::string bytes_of(py::handle name, const char* what);

// What runs ask of a session's ports.
struct Ports {
  std::map<std::string, int32_t> dtypes;  // metac_dtype of inputs and states; -1: the model does not say
  std::vector<py::object> output_names;
};

using GivenArrays = std::vector<std::unique_ptr<GivenArray>>;

// {name: array}; dtypes are looked for in `ports`, which may be null. what: "input", "state" or "weight".
GivenArrays arrays_of(py::handle given, const char* what, const Ports* ports);
// The tensors of arrays, gathered: valid while the arrays are. Needs no lock of the interpreter.
std::vector<metac_tensor> gathered(const GivenArrays& arrays);
// A list of (name, ResultArray).
py::list outputs_of(metac_result* answered, const Ports& ports);

}  // namespace metac_python
