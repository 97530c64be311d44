#include "compiler/ir/hints.h"

#include <algorithm>

namespace metac {

Expr at_hints(Expr e, const std::vector<Symbol>& symbols) {
  return rewrite(e, [&](Expr n) -> Expr {
    if (n->kind != ExprKind::symbol) return {};
    const Symbol& s = symbols[static_cast<size_t>(n->id)];
    return s.hint > 0 ? s.hint : std::max<int64_t>(s.min, 1);
  });
}

int64_t hinted_value(Expr e, const std::vector<Symbol>& symbols) {
  if (e.if_int()) return e.as_int();
  const Expr value = at_hints(e, symbols);
  return value.if_int() ? value.as_int() : 1;
}

int64_t typical_extent(Expr extent, const std::vector<Symbol>& symbols) {
  constexpr int64_t shortest = 4;
  if (extent.if_int()) return extent.as_int();
  const int64_t typical = hinted_value(extent, symbols);
  return typical >= shortest ? typical : 0;
}

int64_t hinted_bytes(const Var* var, const std::vector<Symbol>& symbols) {
  int64_t bytes = static_cast<int64_t>(size_of(var->dtype()));
  for (Expr d : var->shape())
    if (__builtin_mul_overflow(bytes, hinted_value(d, symbols), &bytes)) return INT64_MAX;
  return bytes;
}

}  // namespace metac
