// Index arithmetic with open dims gets names where its axes are known: products of dims at the head of a kernel, a division
// that depends on a loop at the loop's begin. Compilers may not move a division out of a loop whose body is guarded, and
// nobody reads an address with fifty of them.
#pragma once
#include "compiler/loops/loop_tree.h"

namespace metac {

// Of the CPU's kernels, right before they are printed. What has no symbols stays as it is.
void name_indices(Kernel& kernel);

}  // namespace metac
