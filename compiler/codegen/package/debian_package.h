// A compiled model as a Debian package (deb(5)): library, weights, headers, what CMake and pkg-config find, the Python
// module and the programs, below /usr.
#pragma once
#include <string>

#include "compiler/codegen/project.h"

namespace metac {

// Writes it into the folder `into`, of the project that is built in `folder`; returns its file name. Needs no tool of
// Debian's.
std::string write_debian_package(const Project& project, const std::string& folder, const std::string& version,
                                 const std::string& into);

}  // namespace metac
