#include "compiler/ops/typical_lengths.h"

#include <algorithm>
#include <set>

#include "compiler/ir/hints.h"

namespace metac {

// The dims of the graph's values that a symbol takes part in, each once.
static std::vector<Expr> dims_of(const Graph& graph, int symbol) {
  std::set<const ExprNode*> seen;
  std::vector<Expr> dims;
  for (const Op* op : graph.ops)
    for (const Var* var : op->outputs)
      for (Expr d : var->shape())
        if (!d.if_int() && seen.insert(d.node()).second &&
            any_of(d, [&](Expr n) { return n->kind == ExprKind::symbol && n->id == symbol; }))
          dims.push_back(d);
  return dims;
}

void choose_typical_lengths(Graph& graph, const std::vector<int>& symbols) {
  constexpr int64_t shortest = 8, longest = 1 << 20;
  for (int id : symbols) {
    Symbol& symbol = graph.symbols[static_cast<size_t>(id)];
    const std::vector<Expr> dims = dims_of(graph, id);
    const auto is_short = [&](Expr d) {
      const Expr length = at_hints(d, graph.symbols);
      return length.if_int() && length.as_int() < shortest;
    };
    const int64_t first = symbol.hint;
    while (std::any_of(dims.begin(), dims.end(), is_short) && symbol.hint <= std::min(longest, symbol.max) / 2)
      symbol.hint *= 2;
    if (std::any_of(dims.begin(), dims.end(), is_short)) symbol.hint = first;
  }
}

}  // namespace metac
