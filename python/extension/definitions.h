// Operators that Python defines.
#pragma once
#include <pybind11/pybind11.h>

namespace metac_python {

void define_definitions(pybind11::module_& module);

}  // namespace metac_python
