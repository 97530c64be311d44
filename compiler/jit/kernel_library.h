// The kernels of one program as callable machine code.
#pragma once
#include <vector>

#include "compiler/jit/cache/kernel_store.h"

namespace metac {

struct JitOptions {
  int threads = 0;               // compiling at once; 0: one per core
  KernelStore* store = nullptr;  // null: the process's
  const class Device* device = nullptr;  // that runs the kernels (compiler/jit/device.h); null: threads

  KernelStore& kernels() const { return store ? *store : KernelStore::of_process(); }
};

// How many kernels of a program came from where.
struct KernelOrigins {
  int64_t memory = 0, disk = 0, compiled = 0;
};

class KernelLibrary {
 public:
  // Compiles (or finds in the store) and links. Throws KernelCompileError, CompileError.
  KernelLibrary(const std::vector<KernelSource>& kernels, const CpuTarget& cpu, const JitOptions& options = {});
  // By the position in `kernels`.
  const std::vector<rt::KernelFunction>& functions() const { return functions_; }
  const KernelOrigins& origins() const { return origins_; }
  int64_t code_bytes() const;  // of the objects that these kernels lie in

 private:
  std::vector<StoredKernel> stored_;  // keep the code
  std::vector<rt::KernelFunction> functions_;
  KernelOrigins origins_;
};

}  // namespace metac
