// Prints a loop tree as CUDA: a device kernel in the dialect of runtime/cuda/prelude.h and the host function that starts
// it, which has the type of every kernel (runtime/program.h): its scratch argument is a DeviceLaunch, its iterations are
// the grid's blocks.
#pragma once
#include "compiler/codegen/cpp_kernel.h"

namespace metac {

KernelSource print_cuda_kernel(const Kernel& kernel, const KernelPrinting& options);

}  // namespace metac
