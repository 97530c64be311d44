// The loop transforms' algebra: each says whether it applies, and why not where people will ask, and rewrites expressions
// or trees.
#pragma once
#include <string>

#include "compiler/loops/loop_tree.h"
#include "compiler/tensor/axes.h"

namespace metac {

// Two nested loops collapse into one where every expression sees them only as outer*extent(inner) + inner.
bool can_collapse(Expr e, const Loop& outer, const Loop& inner);
Expr collapse_axes(Expr e, const Loop& outer, const Loop& inner, const Loop& merged);

// Lanes may run along `loop`: all loads step by 0 or 1 (`most_step`: up to so many elements, of one byte or four) or look up a
// byte, the store steps by 1, and the axis occurs nowhere but in offsets. Empty expressions are skipped. Where it does not
// apply, `reason` gets why: "a load steps by 56".
bool can_vectorise(const Loop& loop, const std::vector<Expr>& values, Expr store_offset, std::string* reason = nullptr,
                   int64_t most_step = 1);

// A truth made a number of four bytes as the choice between 1 and 0, which lanes have.
Expr masks_chosen(Expr e);

// Replaces axis(id) in the whole tree.
void substitute_axis(LoopNode& node, int id, Expr value);

}  // namespace metac
