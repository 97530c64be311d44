// A built project as what people install: a wheel, a Debian package. The same project gives the same bytes.
#pragma once
#include <string>
#include <vector>

#include "compiler/codegen/project.h"

namespace metac {

struct PackageOptions {
  bool wheel = false, deb = false;
  std::string version = ProjectOptions().package_version;  // of the model, as PEP 440 writes versions
};

// Throws CompileError where a project of this name cannot be packaged so: before anything is compiled.
void check_packages(const PackageOptions& options, const std::string& name);
// Writes the packages of the project that is built in `folder` into `folder`/dist; returns their paths in `folder`.
std::vector<std::string> write_packages(const Project& project, const std::string& folder, const PackageOptions& options);

}  // namespace metac
