// A stand-in for the driver library, libcuda.so.1: what compiler/jit/cuda/cuda_driver.h loads. Device memory can be touched by
// copies and kernels alone, with a page that nobody can touch behind it. A module is a library of the stand-in's nvrtc.cpp.
// METAC_SHIM_DEVICES, METAC_SHIM_DRIVER (its version): what it tells.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace {

enum { success = 0, invalid_value = 1, out_of_memory = 2, no_device = 100, invalid_image = 200, not_found = 500 };
constexpr size_t page = 4096;
struct Allocation {
  char* map;
  size_t pages, bytes;
};
std::map<char*, Allocation> allocations;
std::mutex one_after_the_other;  // copies, kernels and allocations of all threads

struct Access {  // while it lives, device memory can be touched
  std::lock_guard<std::mutex> lock{one_after_the_other};
  Access() { set(PROT_READ | PROT_WRITE); }
  ~Access() { set(PROT_NONE); }
  static void set(int how) {
    for (const auto& [data, a] : allocations) mprotect(a.map, a.pages * page, how);
  }
};

int number(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

}  // namespace

extern "C" {
int cuInit(unsigned) { return number("METAC_SHIM_DEVICES", 1) > 0 ? success : no_device; }
int cuDriverGetVersion(int* version) { return *version = number("METAC_SHIM_DRIVER", 13000), success; }
int cuDeviceGetCount(int* count) { return *count = number("METAC_SHIM_DEVICES", 1), success; }
int cuDeviceGet(int* device, int) { return *device = 0, success; }
int cuDeviceGetAttribute(int* value, int attribute, int) { return *value = attribute == 75 ? 9 : 0, success; }
int cuDevicePrimaryCtxRetain(void** context, int) { return *context = &allocations, success; }
int cuCtxSetCurrent(void* context) { return context == &allocations ? success : invalid_value; }
int cuCtxSynchronize() { return success; }
int cuMemAlloc_v2(unsigned long long* data, size_t bytes) {
  const size_t pages = (bytes + page - 1) / page;
  void* const map =
      mmap(nullptr, (pages + 1) * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (bytes == 0 || map == MAP_FAILED) return out_of_memory;
  if (bytes <= size_t{64} << 20) std::memset(map, 0xff, pages * page);
  mprotect(map, (pages + 1) * page, PROT_NONE);
  const std::lock_guard<std::mutex> lock(one_after_the_other);
  char* const begin = static_cast<char*>(map) + pages * page - (bytes + 63) / 64 * 64;
  allocations[begin] = {static_cast<char*>(map), pages, bytes};
  *data = reinterpret_cast<unsigned long long>(begin);
  return success;
}
int cuMemFree_v2(unsigned long long data) {
  const std::lock_guard<std::mutex> lock(one_after_the_other);
  auto found = allocations.find(reinterpret_cast<char*>(data));
  if (found == allocations.end()) return invalid_value;
  munmap(found->second.map, (found->second.pages + 1) * page);
  allocations.erase(found);
  return success;
}
int cuMemcpy(unsigned long long to, unsigned long long from, size_t bytes) {
  Access access;
  std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return success;
}
int cuMemsetD8_v2(unsigned long long to, unsigned char value, size_t bytes) {
  Access access;
  std::memset(reinterpret_cast<void*>(to), value, bytes);
  return success;
}
int cuModuleLoadData(void** module, const void* image) {
  const char* bytes = static_cast<const char*>(image);
  if (std::memcmp(bytes, "SHIM", 4) != 0) return invalid_image;
  uint64_t size = 0;
  std::memcpy(&size, bytes + 4, sizeof size);
  char name[] = "/tmp/metac-shim-module-XXXXXX";
  const int file = mkstemp(name);
  if (file < 0) return invalid_image;
  const bool written = write(file, bytes + 12, size) == static_cast<ssize_t>(size);
  close(file);
  *module = written ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : nullptr;
  unlink(name);
  return *module == nullptr ? invalid_image : success;
}
int cuModuleUnload(void* module) { return dlclose(module) == 0 ? success : invalid_value; }
int cuModuleGetFunction(void** function, void* module, const char* name) {
  return (*function = dlsym(module, name)) == nullptr ? not_found : success;
}
int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void* stream, void** arguments, void** more) {
  if (gz != 1 || by != 1 || bz != 1 || shared != 0 || stream != nullptr || more != nullptr) return invalid_value;
  Access access;
  return reinterpret_cast<int (*)(unsigned, unsigned, unsigned, void**)>(function)(gx, gy, bx, arguments);
}
int cuGetErrorString(int status, const char** text) {
  *text = status == no_device       ? "no CUDA-capable device is detected"
          : status == invalid_image ? "device kernel image is invalid"
          : status == out_of_memory ? "out of memory"
                                    : "invalid argument";
  return success;
}
}
