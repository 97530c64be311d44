// Replacing Vars by others where they are read, for passes that walk a list of ops in order.
#pragma once
#include <map>

#include "compiler/ir/graph.h"

namespace metac {

using Replacements = std::map<const Var*, Var*>;

void replace_operands(Op& op, const Replacements& by);
void replace_results(Op& op, const Replacements& by);  // what the op's regions hand on
// May readers of `var` read `by` instead? Yes, if both are of one type and outputs of the graph keep Vars of their own;
// what must not be fused is only replaced by its like.
bool may_be_replaced(const Graph& graph, const Var* var, const Var* by);

}  // namespace metac
