// Index-set splitting of concatenations: one kernel per part, none with a condition inside.
#pragma once
#include "compiler/passes/fuse.h"

namespace metac {

// Appends the item, or the parts it splits into, to `all`.
void split_parts(Item item, const std::vector<Symbol>& symbols, std::vector<Item>& all);

}  // namespace metac
