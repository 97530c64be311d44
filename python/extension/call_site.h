// Where in the user's Python a call comes from: the innermost frame that is not of the package metac itself.
#pragma once
#include <Python.h>

#include "metac/var.h"

namespace metac_python {

// Sets the folder whose files are the package's. With the interpreter's lock held, as below.
void set_package_folder(const char* folder);
metac_site call_site();

}  // namespace metac_python
