// metac._metac.VarBase, of which metac.Var is the class that users see. It is written against the interpreter's own
// interface: a step of small operators is bound by what one call costs, and pybind11's dispatch alone is most of what one
// may.
#pragma once
#include <pybind11/pybind11.h>

#include "metac/var.h"

namespace metac_python {

namespace py = pybind11;

void define_var(py::module_& module);

// A new object of the class that was registered; takes the handle. NULL with an exception set.
PyObject* python_var(metac_var* var);
// The handle of an object, which stays its own; null: it is no Var.
metac_var* var_of(PyObject* object);

}  // namespace metac_python
