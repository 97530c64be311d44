#include <map>
#include <string_view>

#include "compiler/jit/device.h"
#include "compiler/target/target.h"

namespace metac {

// In files of their own.
const Device& cuda_jit_device();

const Device* device_of(const Target& target) {
  static const std::map<std::string_view, const Device*> devices = {{"cuda", &cuda_jit_device()}};
  const auto found = devices.find(target.name());
  return found == devices.end() ? nullptr : found->second;
}

}  // namespace metac
