// The headers of runtime/device, as text: what the in-process compiler offers kernels to include.
#pragma once
#include <string_view>
#include <vector>

namespace metac {

struct DeviceHeader {
  std::string_view name;  // as kernels include it: "device/prelude.h"
  std::string_view text;
};

const std::vector<DeviceHeader>& device_headers();

}  // namespace metac
