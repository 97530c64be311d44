#include "compiler/jit/device_headers.h"

#include "compiler/codegen/embedded_files.h"

namespace metac {

const std::vector<DeviceHeader>& device_headers() {
  static const std::vector<DeviceHeader> headers = [] {
    constexpr std::string_view root = "runtime/", folder = "runtime/device/";
    std::vector<DeviceHeader> found;
    for (const auto& [path, text] : embedded_files())
      if (path.starts_with(folder)) found.push_back({std::string_view(path).substr(root.size()), text});
    return found;
  }();
  return headers;
}

}  // namespace metac
