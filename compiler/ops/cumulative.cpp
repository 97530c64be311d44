// CumSum and CumProd as reductions: out[i] reduces all x[j] with j <= i. That takes n * n steps for an axis of n elements,
// so long axes are cut into blocks: prefixes inside each block, prefixes of the blocks' totals, one combination.
#include "compiler/ir/bounds.h"
#include "compiler/ops/axis_set.h"
#include "compiler/ops/running_reduction.h"
#include "compiler/ops/shape_operands.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;
constexpr int64_t block = 16;  // 7,168 rows of 112: 2.3 ms, in blocks of 64 (and so in one) 56

// Over the last axis. exclusive: j < i.
Var* short_prefix(Graph& g, Var* x, Reduce reduction, bool exclusive, bool reverse) {
  int last = x->rank() - 1;
  // [..., i, j] = x[..., j] where j counts for i, else the identity.
  Shape domain = x->shape();
  domain.push_back(x->shape()[last]);
  std::vector<Expr> indices = identity_indices(last);
  indices.push_back(axis(last + 1));
  Expr i = axis(last), j = axis(last + 1);
  if (reverse) std::swap(i, j);
  Var* spread = g.reindex({x}, domain, indices, {exclusive ? j < i : j <= i}, identity_of(reduction, x->dtype()));
  return reduce(g, spread, {last + 1}, reduction, false);
}

}  // namespace

Var* running_reduction(Graph& g, Var* x, Reduce reduction, bool exclusive, bool reverse) {
  int last = x->rank() - 1;
  Dim extent = x->shape()[last];
  if (extent.if_int() && extent.as_int() <= 2 * block) return short_prefix(g, x, reduction, exclusive, reverse);
  Dim blocks = simplified(g, ceil_div(extent, block));
  Shape cut(x->shape().begin(), x->shape().end() - 1);
  cut.insert(cut.end(), {blocks, Dim(block)});
  std::vector<Expr> indices = identity_indices(last);
  indices.push_back(axis(last) * Expr(block) + axis(last + 1));
  Var* parts = g.reindex({x}, cut, indices, {indices.back() < extent}, identity_of(reduction, x->dtype()));
  Var* inside = short_prefix(g, parts, reduction, exclusive, reverse);
  Var* totals = reduce(g, parts, {last + 1}, reduction, false);
  Var* before =
      blocks.if_int() ? running_reduction(g, totals, reduction, true, reverse) : short_prefix(g, totals, reduction, true, reverse);
  std::vector<Expr> at = identity_indices(last);
  at.push_back(floor_div(axis(last), block));
  Var* base = g.reindex({before}, x->shape(), at);
  at.push_back(floor_mod(axis(last), block));
  Var* own = g.reindex({inside}, x->shape(), at);
  return elementwise(g, {base, own}, [&](const std::vector<Expr>& v) { return combine(reduction, v[0], v[1]); });
}

namespace {

LowerFunction lower_cumulative(Reduce reduction) {
  return [reduction](Lowering& n) {
    Graph& g = n.graph();
    Var* x = n.input(0);
    if (x->rank() == 0) fail("the input is a scalar");
    if (is_bool(x->dtype())) fail("the input must be numeric, not bool");
    AxisSet along(g, reshape(g, n.input(1), {1}), x->rank(), "axis");
    Var* y = running_reduction(g, axis_to_last(g, x, along), reduction, n.integer("exclusive", 0) != 0, n.integer("reverse", 0) != 0);
    n.set_output(0, axis_from_last(g, y, along));
  };
}
METAC_OPERATOR("CumSum")
    .since({11, 14})
    .inputs(2)
    .outputs(1)
    .attribute("exclusive", Kind::integer)
    .attribute("reverse", Kind::integer)
    .lower(lower_cumulative(Reduce::add));
METAC_OPERATOR("CumProd")
    .since({26})
    .inputs(2)
    .outputs(1)
    .attribute("exclusive", Kind::integer)
    .attribute("reverse", Kind::integer)
    .lower(lower_cumulative(Reduce::mul));

}  // namespace
}  // namespace metac
