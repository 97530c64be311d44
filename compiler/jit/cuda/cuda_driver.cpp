#include "compiler/jit/cuda/cuda_driver.h"

#include <dlfcn.h>

#include <cstdlib>

#include "compiler/jit/clang_compiler.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

// The first of these libraries that can be opened; null: none.
void* open_one(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  return nullptr;
}

template <class F>
void find(void* library, const char* name, F*& function) {
  function = reinterpret_cast<F*>(dlsym(library, name));
  if (!function) fail("the CUDA library that was found has no ", name, ": it is too old");
}

CudaDriver load_driver() {
  // Where it has another name, METAC_CUDA_DRIVER has that.
  const char* const named = std::getenv("METAC_CUDA_DRIVER");
  void* const library = named ? open_one({named}) : open_one({"libcuda.so.1", "libcuda.so"});
  if (!library) fail("no CUDA device: NVIDIA's driver (libcuda.so.1) is not installed");
  CudaDriver d{};
  find(library, "cuInit", d.init);
  find(library, "cuDriverGetVersion", d.driver_version);
  find(library, "cuDeviceGetCount", d.device_count);
  find(library, "cuDeviceGet", d.device);
  find(library, "cuDeviceGetAttribute", d.device_attribute);
  find(library, "cuDevicePrimaryCtxRetain", d.retain_context);
  find(library, "cuCtxSetCurrent", d.set_context);
  find(library, "cuMemAlloc_v2", d.take);
  find(library, "cuMemFree_v2", d.give);
  find(library, "cuMemcpy", d.copy);
  find(library, "cuMemsetD8_v2", d.clear);
  find(library, "cuCtxSynchronize", d.synchronize);
  find(library, "cuModuleLoadData", d.load_module);
  find(library, "cuModuleUnload", d.unload_module);
  find(library, "cuModuleGetFunction", d.function);
  find(library, "cuLaunchKernel", d.launch);
  find(library, "cuGetErrorString", d.error_text);
  return d;
}

CudaDevice0 open_device() {
  static const CudaDriver driver = load_driver();
  auto check = [](int status, const char* what) {
    if (status != 0) fail("no CUDA device: ", what, ": ", driver.text_of(status));
  };
  CudaDevice0 found{&driver, nullptr, 0, 0};
  check(driver.init(0), "starting the driver");
  int count = 0, device = 0, major = 0, minor = 0;
  check(driver.device_count(&count), "counting devices");
  if (count == 0) fail("no CUDA device: the driver lists none");
  constexpr int attribute_major = 75, attribute_minor = 76;
  check(driver.device(&device, 0), "choosing a device");
  check(driver.device_attribute(&major, attribute_major, device), "asking for its kind");
  check(driver.device_attribute(&minor, attribute_minor, device), "asking for its kind");
  check(driver.driver_version(&found.version), "asking for the driver's version");
  check(driver.retain_context(&found.context, device), "opening it");
  check(driver.set_context(found.context), "opening it");
  found.capability = major * 10 + minor;
  return found;
}

struct RuntimeCompiler {
  int (*version)(int*, int*);
  int (*create)(void**, const char* source, const char* name, int, const char* const*, const char* const*);
  int (*destroy)(void**);
  int (*add_name)(void*, const char*);
  int (*compile)(void*, int, const char* const*);
  int (*log_size)(void*, size_t*);
  int (*log)(void*, char*);
  int (*binary_size)(void*, size_t*);
  int (*binary)(void*, char*);
  int (*lowered_name)(void*, const char*, const char**);
  const char* (*error_text)(int);
};

const RuntimeCompiler& runtime_compiler() {
  static const RuntimeCompiler found = [] {
    void* const library = open_one({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so"});
    if (!library) fail("NVIDIA's run-time compiler (libnvrtc.so) is not installed; it comes with the CUDA toolkit");
    RuntimeCompiler c{};
    find(library, "nvrtcVersion", c.version);
    find(library, "nvrtcCreateProgram", c.create);
    find(library, "nvrtcDestroyProgram", c.destroy);
    find(library, "nvrtcAddNameExpression", c.add_name);
    find(library, "nvrtcCompileProgram", c.compile);
    find(library, "nvrtcGetProgramLogSize", c.log_size);
    find(library, "nvrtcGetProgramLog", c.log);
    find(library, "nvrtcGetCUBINSize", c.binary_size);
    find(library, "nvrtcGetCUBIN", c.binary);
    find(library, "nvrtcGetLoweredName", c.lowered_name);
    find(library, "nvrtcGetErrorString", c.error_text);
    return c;
  }();
  return found;
}

}  // namespace

std::string CudaDriver::text_of(int status) const {
  const char* text = nullptr;
  return error_text(status, &text) == 0 && text ? text : concat("error ", status);
}

const CudaDevice0& cuda_device() {
  static const CudaDevice0 device = open_device();
  return device;
}

std::string runtime_compiler_version() {
  int major = 0, minor = 0;
  if (runtime_compiler().version(&major, &minor) != 0) fail("NVIDIA's run-time compiler does not tell its version");
  return concat(major, ".", minor);
}

RuntimeCompiled compile_at_run_time(const std::string& source, const std::vector<std::string>& options,
                                    const std::vector<std::string>& names) {
  const RuntimeCompiler& c = runtime_compiler();
  void* program = nullptr;
  if (const int status = c.create(&program, source.c_str(), "kernels.cu", 0, nullptr, nullptr); status != 0)
    fail("NVIDIA's run-time compiler: ", c.error_text(status));
  struct Program {
    const RuntimeCompiler& compiler;
    void* program;
    ~Program() { compiler.destroy(&program); }
  } owner{c, program};
  auto check = [&](int status) {
    if (status != 0) fail("NVIDIA's run-time compiler: ", c.error_text(status));
  };
  for (const std::string& name : names) check(c.add_name(program, name.c_str()));
  std::vector<const char*> words;
  for (const std::string& option : options) words.push_back(option.c_str());
  if (c.compile(program, static_cast<int>(words.size()), words.data()) != 0) {
    size_t size = 0;
    std::string log;
    if (c.log_size(program, &size) == 0 && size > 0) log.resize(size), c.log(program, log.data());
    throw KernelCompileError("a generated CUDA kernel does not compile: " + log.substr(0, 4000));
  }
  RuntimeCompiled made;
  size_t size = 0;
  check(c.binary_size(program, &size));
  made.binary.resize(size);
  check(c.binary(program, made.binary.data()));
  for (const std::string& name : names) {
    const char* lowered = nullptr;
    check(c.lowered_name(program, name.c_str(), &lowered));
    made.names.emplace_back(name, lowered);
  }
  return made;
}

}  // namespace metac
