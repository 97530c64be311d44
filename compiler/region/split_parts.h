// Index-set splitting of concatenations, and of what is computed element by element from one: out[i] = f(select(i_k < c, a,
// b)) becomes f(a) for i_k < c and f(b) for i_k >= c, one kernel a part, none with a condition inside.
#pragma once
#include "compiler/region/fusion/fuse.h"

namespace metac {

// How many distinct nodes the largest part has that the body would be cut into.
int nodes_of_largest_part(Expr body);

// Appends the item, or the parts it splits into, to `all`.
void split_parts(Item item, const std::vector<Symbol>& symbols, std::vector<Item>& all);

}  // namespace metac
