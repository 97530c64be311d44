#include "compiler/region/fusion/fusion_facts.h"

#include <algorithm>

#include "compiler/ir/bounds.h"
#include "compiler/tensor/sum_of_products.h"

namespace metac {

int loads_of(const Definition& d) {
  int loads = 0;
  visit_loads(d, [&](Expr) { ++loads; });
  return loads;
}

int count_nodes(Expr e) {
  int n = 0;
  visit(e, [&](Expr) { ++n; });
  return n;
}

bool no_more_elements(const Definition& reader, const Definition& d, const std::vector<Symbol>& symbols) {
  const Expr mine = element_count(d.domain), theirs = element_count(reader.domain);
  const Bounds bounds(symbols, d.domain);
  if (mine == theirs || bounds.proves_at_least(mine, theirs)) return true;
  return std::equal(d.domain.begin(), d.domain.end(), reader.domain.begin(), reader.domain.end(),
                    [&](Expr most, Expr extent) { return bounds.proves_at_least(most, extent); });
}

bool has_folded_index(const Definition& d) {
  bool folded = false;
  visit_loads(d, [&](Expr n) {
    for (Expr index : n->args)
      folded |= any_of(index, [](Expr e) { return e->kind == ExprKind::call && (e->fn == Fn::min || e->fn == Fn::max); });
  });
  return folded;
}

bool is_contraction(const Definition& d) {
  const auto s = sum_of_products(d);
  if (!s || s->of_words() || !s->factors[0].value->has_load || !s->factors[1].value->has_load) return false;
  return !s->rows.empty() || !s->columns.empty() || !s->row_steps.empty() || !s->column_steps.empty();
}

bool is_simple(Expr body) {
  int calls = 0;
  bool costly = any_of(body, [&](Expr n) {
    if ((n->kind != ExprKind::call && n->kind != ExprKind::cast) || !n->has_load) return false;  // index arithmetic aside
    ++calls;
    return n->kind == ExprKind::call && (is_elementary(n->fn) || n->fn == Fn::div || n->fn == Fn::sqrt);
  });
  return !costly && calls <= 6;
}

}  // namespace metac
