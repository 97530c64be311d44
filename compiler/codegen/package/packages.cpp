#include "compiler/codegen/package/packages.h"

#include <filesystem>

#include "compiler/codegen/package/debian_package.h"
#include "compiler/codegen/package/package_name.h"
#include "compiler/codegen/package/wheel.h"

namespace metac {

void check_packages(const PackageOptions& options, const std::string& name) {
  check_package_version(options.version);
  if (options.deb) check_debian_name(name);
}

std::vector<std::string> write_packages(const Project& project, const std::string& folder, const PackageOptions& options) {
  std::vector<std::string> paths;
  const std::string dist = folder + "/dist";
  if (options.wheel || options.deb) std::filesystem::create_directories(dist);
  if (options.wheel) paths.push_back("dist/" + write_wheel(project, folder, options.version, dist));
  if (options.deb) paths.push_back("dist/" + write_debian_package(project, folder, options.version, dist));
  return paths;
}

}  // namespace metac
