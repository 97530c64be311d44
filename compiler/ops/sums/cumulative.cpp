// CumSum and CumProd as reductions: out[i] reduces all x[j] with j <= i. That takes n * n steps for an axis of n elements,
// so long axes are cut into blocks: prefixes inside each block, prefixes of the blocks' totals, one combination.
#include "compiler/ir/bounds.h"
#include "compiler/ops/axis_set.h"
#include "compiler/ops/shape_operands.h"
#include "compiler/ops/sums/running_reduction.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;
constexpr int64_t block = 16;  // 7,168 rows of 112: 2.3 ms, in blocks of 64 (and so in one) 56

// exclusive: j < i.
Var* short_prefix(Graph& g, Var* x, int along, Reduce reduction, bool exclusive, bool reverse) {
  // [..., i, ..., j] = x[..., j, ...] where j counts for i, else the identity.
  const int rank = x->rank();
  Shape domain = x->shape();
  domain.push_back(x->shape()[along]);
  std::vector<Expr> indices = identity_indices(rank);
  indices[static_cast<size_t>(along)] = axis(rank);
  Expr i = axis(along), j = axis(rank);
  if (reverse) std::swap(i, j);
  Var* spread = g.reindex({x}, domain, indices, {exclusive ? j < i : j <= i}, identity_of(reduction, x->dtype()));
  return reduce(g, spread, {rank}, reduction, false);
}

}  // namespace

Var* running_reduction(Graph& g, Var* x, int along, Reduce reduction, bool exclusive, bool reverse) {
  const int rank = x->rank();
  const Dim extent = x->shape()[along];
  if (extent.if_int() && extent.as_int() <= 2 * block) return short_prefix(g, x, along, reduction, exclusive, reverse);
  // [..., block, element of the block, ...]
  Dim blocks = simplified(g, ceil_div(extent, block));
  Shape cut = x->shape();
  cut[static_cast<size_t>(along)] = blocks;
  cut.insert(cut.begin() + along + 1, Dim(block));
  std::vector<Expr> indices;
  for (int k = 0; k < rank; ++k)
    indices.push_back(k < along ? axis(k) : k > along ? axis(k + 1) : axis(along) * Expr(block) + axis(along + 1));
  Var* parts =
      g.reindex({x}, cut, indices, {indices[static_cast<size_t>(along)] < extent}, identity_of(reduction, x->dtype()));
  Var* inside = short_prefix(g, parts, along + 1, reduction, exclusive, reverse);
  Var* totals = reduce(g, parts, {along + 1}, reduction, false);
  Var* before = blocks.if_int() ? running_reduction(g, totals, along, reduction, true, reverse)
                                : short_prefix(g, totals, along, reduction, true, reverse);
  std::vector<Expr> at = identity_indices(rank);
  at[static_cast<size_t>(along)] = floor_div(axis(along), block);
  Var* base = g.reindex({before}, x->shape(), at);
  at.insert(at.begin() + along + 1, floor_mod(axis(along), block));
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
    const auto run = [&](Var* v, int axis) {
      return running_reduction(g, v, axis, reduction, n.integer("exclusive", 0) != 0, n.integer("reverse", 0) != 0);
    };
    if (along.known()) return n.set_output(0, run(x, along.values()[0]));
    Var* last = axis_to_last(g, x, along);
    n.set_output(0, axis_from_last(g, run(last, last->rank() - 1), along));
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
