// Operators of the registry, what is done with Vars beside arithmetic, and traced models, for the package's words.
#pragma once
#include <pybind11/pybind11.h>

namespace metac_python {

void define_operators(pybind11::module_& module);
void define_traced_model(pybind11::module_& module);
void define_optimiser(pybind11::module_& module);

}  // namespace metac_python
