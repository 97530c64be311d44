// The kernels of one program as callable machine code.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "compiler/jit/kernel_linker.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/program/program.h"

namespace metac {

class ObjectCache;

struct JitOptions {
  int threads = 0;               // compiling at once; 0: one per core
  ObjectCache* cache = nullptr;  // null: the user's
  bool on_device = false;        // the first GPU runs the kernels
};

// The text of one translation unit that holds these kernels.
std::string module_text(const std::vector<const KernelSource*>& kernels);

class KernelLibrary {
 public:
  // Compiles (or finds in the cache) and links. Throws KernelCompileError, CompileError.
  KernelLibrary(const std::vector<KernelSource>& kernels, const CpuTarget& cpu, const JitOptions& options = {});
  // By the position in `kernels`.
  const std::vector<rt::KernelFunction>& functions() const { return functions_; }

 private:
  std::unique_ptr<LinkedCode> code_;
  std::vector<rt::KernelFunction> functions_;
};

}  // namespace metac
