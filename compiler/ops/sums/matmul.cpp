// MatMul and Gemm.
#include "compiler/ops/pointwise/arithmetic.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

void lower_matmul(Lowering& n) {
  Graph& g = n.graph();
  Var *a = n.input(0), *b = n.input(1);
  require_numeric(a, "A");
  require_same_dtype(a, b);
  require_rank_at_least(a, 1, "A");
  require_rank_at_least(b, 1, "B");
  n.set_output(0, cast(g, matmul(g, widen(g, a), widen(g, b)), a->dtype()));
}
METAC_OPERATOR("MatMul").since({1, 9, 13}).inputs(2).outputs(1).lower(lower_matmul);

// alpha * A' * B' + beta * C
void lower_gemm(Lowering& n) {
  Graph& g = n.graph();
  Var *a = n.input(0), *b = n.input(1), *c = n.optional_input(2);
  DType dtype = a->dtype();
  require_numeric(a, "A");
  require_same_dtype(a, b);
  require_rank(a, 2, "A");
  require_rank(b, 2, "B");
  double alpha = n.real("alpha", 1), beta = n.real("beta", 1);
  a = widen(g, a);
  b = widen(g, b);
  if (n.integer("transA", 0) != 0) a = transpose(g, a, {1, 0});
  if (n.integer("transB", 0) != 0) b = transpose(g, b, {1, 0});
  require_equal(
      g, a->shape()[1], b->shape()[0],
      concat("A ", to_string(a->shape()), " times B ", to_string(b->shape()), " (both after transposing): inner extents"));
  Var* y = matmul(g, a, b);
  auto scaled = [](Expr e, double factor) {
    if (factor == 1) return e;
    if (is_float(e->dtype)) return e * constant_like(e, factor);
    return cast(cast(e, DType::f64) * float_constant(factor, DType::f64), e->dtype);
  };
  if (c) {
    require_same_dtype(n.input(0), c, "A", "C");
    if (c->rank() > 2) fail("C must have at most 2 axes, its shape is ", to_string(c->shape()));
    broadcast_shapes(g, {y->shape(), c->shape()});  // for its message
    c = broadcast_to(g, widen(g, c), y->shape());
    y = elementwise(g, {y, c}, [&](const std::vector<Expr>& v) { return scaled(v[0], alpha) + scaled(v[1], beta); });
  } else {
    y = elementwise(g, {y}, [&](const std::vector<Expr>& v) { return scaled(v[0], alpha); });
  }
  n.set_output(0, cast(g, y, dtype));
}
METAC_OPERATOR("Gemm")
    .since({1, 6, 7, 9, 11, 13})
    .inputs(2, 3)
    .outputs(1)
    .attribute("alpha", Kind::real)
    .attribute("beta", Kind::real)
    .attribute("transA", Kind::integer)
    .attribute("transB", Kind::integer)
    .attribute("broadcast", Kind::integer, 1, 7)
    .lower(lower_gemm);

}  // namespace
}  // namespace metac
