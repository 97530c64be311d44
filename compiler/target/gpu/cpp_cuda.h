// Prints a loop tree as CUDA: a device kernel in the dialect of runtime/cuda/prelude.h and the host function that starts
// it, which has the type of every kernel (runtime/program.h): its scratch argument is a DeviceLaunch, its iterations are
// the grid's blocks.
#pragma once
#include "compiler/printing/kernel_source.h"
#include "compiler/target/gpu/strategies/lower_gpu_flat.h"

namespace metac {

KernelSource print_cuda_kernel(const Kernel& kernel, const KernelPrinting& options);

// Kernels for a GPU that do the same, as one start whose blocks are dealt to the members by their counts
// (cpp_cuda_members.cpp). `all`: the members joined.
KernelSource print_members(const Kernel& all, const std::vector<FlatKernel>& members, const KernelPrinting& options);

}  // namespace metac
