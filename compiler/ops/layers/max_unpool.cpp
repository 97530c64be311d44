// MaxUnpool: scatters the maxima back to where MaxPool found them; what none reached is 0.
#include "compiler/ops/layers/windows.h"
#include "compiler/ops/pointwise/arithmetic.h"
#include "compiler/ops/shape_operands.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

void lower_max_unpool(Lowering& n) {
  Graph& g = n.graph();
  Var *x = n.input(0), *positions = n.input(1), *wanted = n.optional_input(2);
  require_float(x, "X");
  require_integer(positions, "I");
  require_rank_at_least(x, 3, "X");
  require_rank(positions, x->rank(), "I");
  for (int k = 0; k < x->rank(); ++k)
    require_equal(g, x->shape()[k], positions->shape()[k],
                  concat("X ", to_string(x->shape()), " against I ", to_string(positions->shape())));
  size_t axes = x->shape().size() - 2;
  if (n.integers("kernel_shape").empty()) fail("kernel_shape is missing");
  std::vector<int64_t> kernel = spatial_attribute(n, "kernel_shape", axes, 1),
                       strides = spatial_attribute(n, "strides", axes, 1);
  std::vector<int64_t> pads = n.integers("pads", std::vector<int64_t>(2 * axes, 0));
  if (pads.size() != 2 * axes) fail("pads has ", pads.size(), " values, expected ", 2 * axes);
  for (size_t i = 0; i < pads.size(); ++i)
    if (pads[i] < 0 || pads[i] >= int64_t{1} << 31) fail("pads[", i, "] is ", pads[i]);

  // The shape that the positions count in; output_shape, if given, puts it into a larger tensor.
  Shape pooled{x->shape()[0], x->shape()[1]};
  for (size_t i = 0; i < axes; ++i)
    pooled.push_back((x->shape()[2 + i] - Expr(1)) * Expr(strides[i]) + Expr(kernel[i]) - Expr(pads[i]) -
                     Expr(pads[axes + i]));
  check_index_range(g, positions, element_count(pooled), "I");
  Shape result = pooled;
  if (wanted) {
    std::vector<Expr> dims = elements_of(g, wanted, "output_shape");
    if (dims.size() != pooled.size()) fail("output_shape has ", dims.size(), " values, expected ", pooled.size());
    result = dims;
  }
  for (size_t i = 0; i < result.size(); ++i)
    g.require(Expr(0) <= result[i], concat("the result has extent ", to_string(result[i]), " in axis ", i));
  Expr position = cast(load(1, positions->dtype(), identity_indices(x->rank())), DType::i64);
  std::vector<Expr> target = unravel_index(pooled, position);
  std::vector<Expr> inside{Expr(0) <= position, position < element_count(pooled)};
  for (size_t i = 0; i < target.size(); ++i)
    if (result[i] != pooled[i]) inside.push_back(target[i] < result[i]);
  // Windows that overlap may name one place twice, with the same value: so the maximum, not the sum.
  Var* scattered = g.reindex_reduce({x, positions}, result, target, Reduce::max, inside);
  n.set_output(0, elementwise(g, {scattered}, [&](const std::vector<Expr>& v) {
                 return select(equal(v[0], identity_of(Reduce::max, v[0]->dtype)), constant_like(v[0], 0), v[0]);
               }));
}

METAC_OPERATOR("MaxUnpool")
    .since({9, 11, 22})
    .inputs(2, 3)
    .outputs(1)
    .required("kernel_shape", Kind::integers)
    .attribute("pads", Kind::integers)
    .attribute("strides", Kind::integers)
    .lower(lower_max_unpool);

}  // namespace
}  // namespace metac
