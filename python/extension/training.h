// Loaders, schedules, processes and runs of metac/train.h for metac/train.py.
#pragma once
#include <pybind11/pybind11.h>

namespace metac_python {

namespace py = pybind11;

void define_training(py::module_& module);

}  // namespace metac_python
