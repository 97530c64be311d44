// Prints a loop tree as C++ for the CPU: one extern "C" function in the dialect of runtime/device/prelude.h. A tree for a
// GPU (Kernel::block) is printed by cpp_cuda.h.
#pragma once
#include "compiler/kernel/loop_tree.h"
#include "compiler/kernel/program.h"

namespace metac {

struct KernelPrinting {
  const std::vector<Symbol>* symbols = nullptr;
  int vector_bytes = 64;            // of the CPU
};

KernelSource print_kernel(const Kernel& kernel, const KernelPrinting& options);
// Bytes of scratch that one worker needs, as an Expr over symbols.
Expr scratch_bytes(const Kernel& kernel);

}  // namespace metac
