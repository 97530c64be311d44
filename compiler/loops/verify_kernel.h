// Is a loop tree one that can be printed? What lowering and every transform must leave so.
#pragma once
#include <string_view>

#include "compiler/loops/loop_tree.h"

namespace metac {

// Aborts with METAC_ASSERT, naming the kernel and what is wrong, where an expression reads an axis of no loop around it, an
// argument or local that there is not, or another dtype than that has; where a loop stands inside another of its axis, a
// parallel loop stands inside the tree, a local is declared twice, or something is stored to an argument that is only read.
void verify_kernel(const Kernel& kernel, std::string_view what);

}  // namespace metac
