// The kernel that clears the halo of a Var: the arena's memory is used again and again, so it runs before every producer.
#pragma once
#include "compiler/loops/loop_tree.h"
#include "compiler/tensor/group.h"

namespace metac {

Kernel zero_halo(Var* var, const Layout& layout);

}  // namespace metac
