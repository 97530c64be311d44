// Prints a loop tree as C++ for the CPU: one extern "C" function in the dialect of runtime/device/prelude.h.
#pragma once
#include "compiler/kernel/loop_tree.h"
#include "compiler/kernel/program.h"

namespace metac {

struct CpuPrinting {
  const std::vector<Symbol>* symbols = nullptr;
  int vector_bytes = 64;
};

KernelSource print_kernel(const Kernel& kernel, const CpuPrinting& options);
// Bytes of scratch that one worker needs, as an Expr over symbols.
Expr scratch_bytes(const Kernel& kernel);

}  // namespace metac
