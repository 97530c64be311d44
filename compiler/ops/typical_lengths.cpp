#include "compiler/ops/typical_lengths.h"

#include <algorithm>
#include <set>

#include "compiler/ir/hints.h"
#include "compiler/ir/walks.h"

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

static std::set<int> symbols_of(Expr e) {
  std::set<int> symbols;
  visit(e, [&](Expr n) {
    if (n->kind == ExprKind::symbol) symbols.insert(n->id);
  });
  return symbols;
}

// The equations that a requirement consists of, whether both sides may be 1 instead or not.
static std::vector<std::pair<Expr, Expr>> equations_of(const Requirement& requirement) {
  std::vector<Expr> conditions;
  conjuncts(requirement.condition, conditions);
  std::vector<std::pair<Expr, Expr>> equations;
  for (Expr condition : conditions) {
    if (condition->has_load) continue;
    std::vector<Expr> any = {condition};  // of which one must hold
    for (size_t k = 0; k < any.size(); ++k) {
      const Expr n = any[k];
      if (n->kind != ExprKind::call) continue;
      if (n->fn == Fn::logical_or) any.insert(any.end(), n->args.begin(), n->args.end());
      if (n->fn == Fn::eq && !n->args[0].if_int() && !n->args[1].if_int()) equations.push_back({n->args[0], n->args[1]});
    }
  }
  return equations;
}

// The largest hint of `symbol` at which `side` is no more than `length`; 0: it is not that long for any.
static int64_t hint_for(Expr side, int symbol, int64_t length, std::vector<Symbol> symbols) {
  Symbol& s = symbols[static_cast<size_t>(symbol)];
  int64_t low = std::max<int64_t>(s.min, 1), high = s.hint;
  while (low < high) {  // what dims are worked out of grows with them
    s.hint = low + (high - low + 1) / 2;
    if (hinted_value(side, symbols) <= length)
      low = s.hint;
    else
      high = s.hint - 1;
  }
  s.hint = low;
  return hinted_value(side, symbols) == length ? low : 0;
}

void choose_matching_lengths(Graph& graph, const std::vector<int>& symbols) {
  constexpr int most_rounds = 32;  // what one equation lowers, another goes on from
  const std::set<int> guessed(symbols.begin(), symbols.end());
  std::vector<std::pair<Expr, Expr>> equations;
  for (const Requirement& r : graph.requirements)
    for (auto& equation : equations_of(r)) equations.push_back(std::move(equation));
  bool changed = true;
  for (int round = 0; changed && round < most_rounds; ++round) {
    changed = false;
    for (auto [longer, shorter] : equations) {
      int64_t most = hinted_value(longer, graph.symbols), least = hinted_value(shorter, graph.symbols);
      if (most == least) continue;
      if (most < least) std::swap(longer, shorter), std::swap(most, least);
      const std::set<int> of = symbols_of(longer);
      if (of.size() != 1 || guessed.count(*of.begin()) == 0 || symbols_of(shorter).count(*of.begin()) > 0) continue;
      Symbol& s = graph.symbols[static_cast<size_t>(*of.begin())];
      const int64_t hint = hint_for(longer, *of.begin(), least, graph.symbols) / s.divisor * s.divisor;
      if (hint < std::max<int64_t>(s.min, 1) || hint >= s.hint) continue;
      s.hint = hint;
      changed = true;
    }
  }
}

}  // namespace metac
