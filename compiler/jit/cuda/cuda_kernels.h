// The kernels of one program for a GPU, made in this process: what runs on the device by NVIDIA's run-time compiler, what
// starts it by Clang. Both are kept in the kernel cache, the first by its text, options, architecture, and the versions of
// compiler and driver.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/jit/kernel_library.h"

namespace metac {

struct CudaKernelText {
  std::string device, host;
  std::vector<std::string> kernels;  // what the host's side starts: "device_k007_add<int>"
};

// Takes the text of printed CUDA kernels (target/gpu/cpp_cuda.h) apart.
CudaKernelText split_cuda_text(const std::vector<KernelSource>& kernels);

// One text that includes nothing: the prelude of CUDA kernels, then these.
std::string device_module_text(const CudaKernelText& text);

class CudaKernels {
 public:
  // Throws KernelCompileError, CompileError (no driver, no device, no compiler).
  CudaKernels(const std::vector<KernelSource>& kernels, const CpuTarget& cpu, const JitOptions& options);
  ~CudaKernels();
  CudaKernels(const CudaKernels&) = delete;
  CudaKernels& operator=(const CudaKernels&) = delete;

  const std::vector<rt::KernelFunction>& functions() const { return functions_; }
  const std::map<std::string, void*>& device_functions() const { return device_functions_; }

 private:
  void* module_ = nullptr;
  std::unique_ptr<LinkedCode> code_;
  std::vector<rt::KernelFunction> functions_;
  std::map<std::string, void*> device_functions_;
};

}  // namespace metac
