// A part of a concatenation that only copies a value which nobody else reads: the value's own kernel stores it there.
#pragma once
#include "compiler/region/fusion/fuse.h"
#include "compiler/tensor/layout.h"

namespace metac {

// `items` in execution order, layouts chosen, concatenations cut into parts. `may_move(v)`: v is nobody's but these items'.
void store_into_parts(std::vector<Item>& items, const Layouts& layouts, const std::function<bool(const Var*)>& may_move);

}  // namespace metac
