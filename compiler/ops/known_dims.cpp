#include "compiler/ops/known_dims.h"

#include <algorithm>
#include <set>
#include <utility>

#include "compiler/ir/walks.h"

namespace metac {
namespace {

// The one symbol, of the inputs, that a condition hangs on; -1: it hangs on more, or on something else.
int only_symbol_of(const Graph& graph, Expr condition) {
  std::set<int> symbols;
  bool others = condition->has_load;
  visit(condition, [&](Expr n) {
    if (n->kind == ExprKind::symbol) symbols.insert(n->id);
    others |= n->kind == ExprKind::axis;
  });
  if (others || symbols.size() != 1) return -1;
  return graph.symbols[static_cast<size_t>(*symbols.begin())].from_input ? *symbols.begin() : -1;
}

class Inference {
 public:
  Inference(const Graph& graph, KnownDims before) : graph_(graph), known_(std::move(before)) {}

  KnownDims run() {
    for (size_t k = 0; k < graph_.symbols.size(); ++k)
      if (graph_.symbols[k].may_be_none) known_.may_be_none.insert(static_cast<int>(k));
    for (const Requirement& r : graph_.requirements) {
      bool told = false;
      std::vector<Expr> conditions;
      conjuncts(r.condition, conditions);
      for (Expr condition : conditions) told |= find_only(condition) || raise_least(condition);
      const auto same = [&](const Requirement& other) { return other.condition == r.condition; };
      if (told && std::none_of(known_.requirements.begin(), known_.requirements.end(), same))
        known_.requirements.push_back(r);
    }
    return std::move(known_);
  }

 private:
  // The one value that meets an equation.
  bool find_only(Expr condition) {
    const int symbol = only_symbol_of(graph_, condition);
    if (symbol < 0 || condition->kind != ExprKind::call || condition->fn != Fn::eq) return false;
    const Linear form = linear_form(condition->args[0] - condition->args[1]);
    if (form.terms.size() != 1 || form.terms[0].first->kind != ExprKind::symbol) return false;
    const int64_t factor = form.terms[0].second;
    const Symbol& s = graph_.symbols[static_cast<size_t>(symbol)];
    if (form.constant % factor != 0) return false;
    const int64_t value = -(form.constant / factor);
    if (value < s.min || value > s.max || s.min == s.max) return false;
    known_.only[symbol] = value;
    return true;
  }

  // The first value that meets the condition, of those from the symbol's least one on.
  bool raise_least(Expr condition) {
    constexpr int64_t most_tried = 256;
    const int symbol = only_symbol_of(graph_, condition);
    if (symbol < 0) return false;
    const Symbol& s = graph_.symbols[static_cast<size_t>(symbol)];
    for (int64_t value = s.min; value < s.min + most_tried && value <= s.max; ++value) {
      const Expr holds =
          rewrite(condition, [&](Expr n) -> Expr { return n->kind == ExprKind::symbol ? Expr(value) : Expr(); });
      if (!holds.if_int()) return false;
      if (holds.is_int(0)) continue;
      if (value == s.min) return false;
      int64_t& least = known_.least[symbol];
      least = std::max(least, value);
      return true;
    }
    return false;
  }

  const Graph& graph_;
  KnownDims known_;
};

}  // namespace

KnownDims infer_known_dims(const Graph& graph, const KnownDims& before) { return Inference(graph, before).run(); }

}  // namespace metac
