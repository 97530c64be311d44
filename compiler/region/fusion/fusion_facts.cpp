#include "compiler/region/fusion/fusion_facts.h"

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

bool no_more_elements(const Definition& reader, const Definition& d) {
  Expr mine = element_count(d.domain), theirs = element_count(reader.domain);
  return mine == theirs || (mine.if_int() && theirs.if_int() && theirs.as_int() <= mine.as_int());
}

bool has_folded_index(const Definition& d) {
  bool folded = false;
  visit_loads(d, [&](Expr n) {
    for (Expr index : n->args)
      folded |= any_of(index, [](Expr e) { return e->kind == ExprKind::call && (e->fn == Fn::min || e->fn == Fn::max); });
  });
  return folded;
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
