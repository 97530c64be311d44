// A compiled model as a wheel (PEP 427): its Python module with the library and its weights beside it.
#pragma once
#include <string>

#include "compiler/codegen/project.h"

namespace metac {

// Writes it into the folder `into`, of the project that is built in `folder`; returns its file name.
std::string write_wheel(const Project& project, const std::string& folder, const std::string& version,
                        const std::string& into);

}  // namespace metac
