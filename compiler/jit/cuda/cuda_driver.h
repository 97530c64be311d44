// NVIDIA's driver and run-time compiler (NVRTC), found when they are asked for: metac is built and runs without them. Only
// what programs of the JIT use; the toolkit's headers are not needed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace metac {

using CudaAddress = unsigned long long;

struct CudaDriver {
  int (*init)(unsigned);
  int (*driver_version)(int*);
  int (*device_count)(int*);
  int (*device)(int*, int);
  int (*device_attribute)(int*, int attribute, int device);
  int (*retain_context)(void**, int device);
  int (*set_context)(void*);
  int (*take)(CudaAddress*, size_t);
  int (*give)(CudaAddress);
  int (*copy)(CudaAddress to, CudaAddress from,
              size_t);  // between any two places; ordered behind kernels of the default stream
  int (*clear)(CudaAddress, unsigned char value, size_t);
  int (*synchronize)();
  int (*load_module)(void**, const void*);
  int (*unload_module)(void*);
  int (*function)(void**, void* module, const char*);
  int (*launch)(void* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void* stream,
                void** arguments, void** more);
  int (*error_text)(int, const char**);

  std::string text_of(int status) const;
};

struct CudaDevice0 {  // the first device, its context taken
  const CudaDriver* driver;
  void* context;
  int capability;  // 90: compute capability 9.0
  int version;     // of the driver
};

// Opened once. Throws CompileError where there is no driver or no device.
const CudaDevice0& cuda_device();

struct RuntimeCompiled {
  std::string binary;
  std::vector<std::pair<std::string, std::string>> names;  // as the source has them; as the binary has them
};

// The version of NVRTC. Throws CompileError where it is not installed.
std::string runtime_compiler_version();
// Compiles CUDA C++ that includes nothing. `names`: its kernels. Throws CompileError, and KernelCompileError where the text
// is at fault.
RuntimeCompiled compile_at_run_time(const std::string& source, const std::vector<std::string>& options,
                                    const std::vector<std::string>& names);

}  // namespace metac
