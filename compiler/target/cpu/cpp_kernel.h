// Prints a loop tree as C++ for the CPU: one extern "C" function in the dialect of runtime/device/prelude.h.
#pragma once
#include "compiler/printing/kernel_source.h"

namespace metac {

KernelSource print_kernel(const Kernel& kernel, const KernelPrinting& options);
}  // namespace metac
