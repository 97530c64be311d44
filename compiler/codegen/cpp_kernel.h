// Prints a loop tree as C++ for the CPU: one extern "C" function in the dialect of runtime/device/prelude.h. A tree for a
// GPU (Kernel::block) is printed by cpp_cuda.h.
#pragma once
#include "compiler/kernel/loop_tree.h"
#include "compiler/kernel/lower_gpu_flat.h"
#include "compiler/kernel/program.h"

namespace metac {

struct KernelPrinting {
  const std::vector<Symbol>* symbols = nullptr;
  int vector_bytes = 64;  // of the CPU
  bool tf32 = false;      // of vendor libraries: float32 operands may be rounded to 10 bits of mantissa
};

KernelSource print_kernel(const Kernel& kernel, const KernelPrinting& options);
// Kernels for a GPU that do the same, as one start whose blocks are dealt to the members by their counts
// (cpp_cuda_members.cpp). `all`: the members joined.
KernelSource print_members(const Kernel& all, const std::vector<FlatKernel>& members, const KernelPrinting& options);
// The text of a kernel without its name and comments: kernels that agree in it are one function.
std::string key_of(const KernelSource& kernel);
// An op that is the user's C++ as a kernel of one task (cpp_code.cpp). `name` is the kernel's; buffers are the op's inputs,
// then its output, all row-major.
KernelSource print_code(const Op& op, const std::string& name, const std::vector<Symbol>& symbols);
// What stands before the user's text in such a kernel, and in no other: a text that does not compile is then the user's.
extern const char* const users_code_mark;
// Bytes of scratch that one worker needs, as an Expr over symbols.
Expr scratch_bytes(const Kernel& kernel);

}  // namespace metac
