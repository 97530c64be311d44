#include "compiler/driver/options/package_options.h"

#include "compiler/codegen/package/package_name.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

std::string wrong_version(const std::string& version) {
  try {
    check_package_version(version);
  } catch (const CompileError& error) {
    return error.diagnostic.message;
  }
  return "";
}

}  // namespace

void add_package_options(CLI::App& command, PackageOptions& options) {
  command.add_flag("--wheel", options.wheel, "also make a wheel for pip, DIR/dist/NAME-VERSION-py3-none-manylinux_*.whl");
  command.add_flag("--deb", options.deb, "also make a Debian package, DIR/dist/NAME_VERSION_amd64.deb");
  command.add_option("--package-version", options.version, "of the model, in packages and in its Python module")
      ->check(wrong_version)
      ->type_name("VERSION")
      ->capture_default_str();
}

}  // namespace metac
