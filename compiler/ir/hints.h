// Open dims as numbers, for costs and schedules: a symbol counts as its hint, or as its least value (at least 1) without
// one. Nothing that must be right for every size may ask here.
#pragma once
#include "compiler/ir/graph.h"

namespace metac {

Expr at_hints(Expr e, const std::vector<Symbol>& symbols);  // its symbols replaced
int64_t hinted_value(Expr e, const std::vector<Symbol>& symbols);
int64_t hinted_bytes(const Var* var, const std::vector<Symbol>& symbols);  // of its elements; saturates
// An extent for schedules: known, or the hint of an open one; 0 where that is short, as a batch's is: any number may come.
int64_t typical_extent(Expr extent, const std::vector<Symbol>& symbols);

}  // namespace metac
