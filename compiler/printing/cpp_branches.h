// Values whose text would grow without end: what two branches share is written in both, and its own branches in each of
// those.
#pragma once
#include <vector>

#include "compiler/ir/expr.h"

namespace metac {

// A select that is printed as an if, so that loads behind a condition stay behind it.
bool is_branch(Expr e);
// How many branches are written for a value when each scope writes what it needs; at most INT64_MAX.
int64_t written_branches(Expr e);
// The nodes that are used several times and have a branch below, arguments first: made once, when somebody asks.
std::vector<Expr> shared_branches(Expr e);

}  // namespace metac
