#include "compiler/jit/kernel_library.h"

#include <set>

namespace metac {

KernelLibrary::KernelLibrary(const std::vector<KernelSource>& kernels, const CpuTarget& cpu, const JitOptions& options)
    : stored_(options.kernels().get(kernels, cpu, options.threads)) {
  for (const StoredKernel& kernel : stored_) {
    functions_.push_back(kernel.function);
    ++(kernel.origin == KernelOrigin::memory ? origins_.memory
       : kernel.origin == KernelOrigin::disk ? origins_.disk
                                             : origins_.compiled);
  }
}

int64_t KernelLibrary::code_bytes() const {
  std::set<const LinkedCode*> objects;
  int64_t bytes = 0;
  for (const StoredKernel& kernel : stored_)
    if (objects.insert(kernel.code.get()).second) bytes += kernel.code->bytes();
  return bytes;
}

}  // namespace metac
