// What compile is told about packages.
#pragma once
#include <CLI/CLI.hpp>

#include "compiler/codegen/package/packages.h"

namespace metac {

void add_package_options(CLI::App& command, PackageOptions& options);

}  // namespace metac
