// Normalisations by statistics of the operand itself: layer, RMS, group, instance, Lp, mean-variance, local response.
// Each in two passes (mean, then squared distances to it), which keeps its accuracy where the mean is large.
#include "compiler/ops/sums/normalization.h"

#include "compiler/ops/layers/convolution.h"
#include "compiler/ops/pointwise/arithmetic.h"
#include "compiler/ops/shape_operands.h"
#include "compiler/ops/sums/reductions.h"

namespace metac {

Standardised standardise(Graph& g, Var* x, const std::vector<int>& axes, double epsilon) {
  Var* mu = mean(g, x, axes, true);
  Var* inverse = elementwise(g, {variance(g, x, mu, axes)}, [&](const std::vector<Expr>& v) {
    return constant_like(v[0], 1) / call(Fn::sqrt, {v[0] + constant_like(v[0], epsilon)});
  });
  Var* value = elementwise(g, {x, mu, inverse}, [](const std::vector<Expr>& v) { return (v[0] - v[1]) * v[2]; });
  return {mu, inverse, value};
}

Var* divide_by_root_mean_square(Graph& g, Var* x, const std::vector<int>& axes, double epsilon) {
  Var* squares = elementwise(g, {x}, [](const std::vector<Expr>& v) { return v[0] * v[0]; });
  return elementwise(g, {x, mean(g, squares, axes, true)}, [&](const std::vector<Expr>& v) {
    return v[0] / call(Fn::sqrt, {v[1] + constant_like(v[1], epsilon)});
  });
}

Var* scale_and_shift(Graph& g, Var* y, Var* scale, Var* bias) {
  auto fit = [&](Var* v) { return broadcast_to(g, cast(g, v, y->dtype()), y->shape()); };
  if (!bias) return map(g, Fn::mul, y, fit(scale));
  return elementwise(g, {y, fit(scale), fit(bias)}, [](const std::vector<Expr>& v) { return v[0] * v[1] + v[2]; });
}

namespace {

using Kind = Attribute::Kind;

void lower_layer_normalization(Lowering& n) {
  Graph& g = n.graph();
  Var *x = n.input(0), *scale = n.input(1), *bias = n.optional_input(2);
  require_float(x, "X");
  int first = check_axis(n.integer("axis", -1), x->rank());
  Standardised s = standardise(g, widen(g, x), axes_from(first, x->rank()), n.real("epsilon", 1e-5));
  n.set_output(0, cast(g, scale_and_shift(g, s.value, scale, bias), x->dtype()));
  DType stash = n.integer("stash_type", 1) == 1 ? DType::f32 : x->dtype();
  if (n.wants_output(1)) n.set_output(1, cast(g, s.mean, stash));
  if (n.wants_output(2)) n.set_output(2, cast(g, s.inverse_deviation, stash));
}
// Models of older opsets have it by ONNX Runtime's optimiser.
METAC_OPERATOR("LayerNormalization")
    .since({1, 17})
    .inputs(2, 3)
    .outputs(1, 3)
    .attribute("stash_type", Kind::integer)
    .attribute("epsilon", Kind::real)
    .attribute("axis", Kind::integer)
    .lower(lower_layer_normalization);

void lower_rms_normalization(Lowering& n) {
  Graph& g = n.graph();
  Var* x = n.input(0);
  require_float(x, "X");
  std::vector<int> axes = axes_from(check_axis(n.integer("axis", -1), x->rank()), x->rank());
  Var* y = divide_by_root_mean_square(g, widen(g, x), axes, n.real("epsilon", 1e-5));
  n.set_output(0, cast(g, scale_and_shift(g, y, n.input(1), nullptr), x->dtype()));
}
// ONNX Runtime's name for it, which its exporter writes into the domain of ONNX.
METAC_OPERATOR("SimplifiedLayerNormalization")
    .since({1})
    .inputs(2)
    .outputs(1)
    .attribute("stash_type", Kind::integer)
    .attribute("epsilon", Kind::real)
    .attribute("axis", Kind::integer)
    .lower(lower_rms_normalization);
METAC_OPERATOR("RMSNormalization")
    .since({23})
    .inputs(2)
    .outputs(1)
    .attribute("stash_type", Kind::integer)
    .attribute("epsilon", Kind::real)
    .attribute("axis", Kind::integer)
    .lower(lower_rms_normalization);

void require_channels(Graph& g, Var* v, Expr channels, std::string_view what) {
  require_rank(v, 1, what);
  require_equal(g, v->shape()[0], channels, concat("length of ", what, " against the channels"));
}

void lower_instance_normalization(Lowering& n) {
  Graph& g = n.graph();
  Var *x = n.input(0), *scale = n.input(1), *bias = n.input(2);
  require_float(x, "input");
  require_rank_at_least(x, 3, "input");
  require_channels(g, scale, x->shape()[1], "scale");
  require_channels(g, bias, x->shape()[1], "B");
  Var* y = standardise(g, widen(g, x), axes_from(2, x->rank()), n.real("epsilon", 1e-5)).value;
  n.set_output(
      0, cast(g, scale_and_shift(g, y, per_channel(g, scale, x->rank()), per_channel(g, bias, x->rank())), x->dtype()));
}
METAC_OPERATOR("InstanceNormalization")
    .since({1, 6, 22})
    .inputs(3)
    .outputs(1)
    .attribute("epsilon", Kind::real)
    .attribute("consumed_inputs", Kind::integers, 1, 6)
    .lower(lower_instance_normalization);

// scale and bias are per group in opset 18, per channel from 21 on.
void lower_group_normalization(Lowering& n) {
  Graph& g = n.graph();
  Var *x = n.input(0), *scale = n.input(1), *bias = n.input(2);
  require_float(x, "X");
  require_rank_at_least(x, 3, "X");
  int64_t groups = n.integer("num_groups", 1);
  if (groups < 1) fail("num_groups must be at least 1, found ", groups);
  Expr channels = x->shape()[1];
  g.require(equal(floor_mod(channels, groups), 0),
            concat("num_groups ", groups, " must divide the ", to_string(channels), " channels"));
  bool per_group = n.opset() < 21;
  require_channels(g, scale, per_group ? Expr(groups) : channels, "scale");
  require_channels(g, bias, per_group ? Expr(groups) : channels, "bias");
  Shape split = x->shape();
  split[1] = floor_div(channels, groups);
  split.insert(split.begin() + 1, Dim(groups));
  Var* y = standardise(g, reshape(g, widen(g, x), split), axes_from(2, x->rank() + 1), n.real("epsilon", 1e-5)).value;
  if (per_group) y = scale_and_shift(g, y, per_channel(g, scale, y->rank()), per_channel(g, bias, y->rank()));
  y = reshape(g, y, x->shape());
  if (!per_group) y = scale_and_shift(g, y, per_channel(g, scale, y->rank()), per_channel(g, bias, y->rank()));
  n.set_output(0, cast(g, y, x->dtype()));
}
METAC_OPERATOR("GroupNormalization")
    .since({18, 21})
    .inputs(3)
    .outputs(1)
    .required("num_groups", Kind::integer)
    .attribute("epsilon", Kind::real)
    .attribute("stash_type", Kind::integer, 21)
    .lower(lower_group_normalization);

// x / norm, and 0 where the norm is 0.
void lower_lp_normalization(Lowering& n) {
  Graph& g = n.graph();
  Var *x = n.input(0), *wide = widen(g, x);
  require_float(x);
  int64_t p = n.integer("p", 2);
  if (p != 1 && p != 2) fail("p must be 1 or 2, found ", p);
  std::vector<int> axes{check_axis(n.integer("axis", -1), x->rank())};
  Var* powers =
      elementwise(g, {wide}, [&](const std::vector<Expr>& v) { return p == 1 ? call(Fn::abs, {v[0]}) : v[0] * v[0]; });
  Var* norm = reduce(g, powers, axes, Reduce::add, true);
  if (p == 2) norm = elementwise(g, {norm}, [](const std::vector<Expr>& v) { return root_of_squares(v[0]); });
  Var* y = elementwise(g, {wide, norm}, [](const std::vector<Expr>& v) {
    return select(equal(v[1], constant_like(v[1], 0)), constant_like(v[0], 0), v[0] / v[1]);
  });
  n.set_output(0, cast(g, y, x->dtype()));
}
METAC_OPERATOR("LpNormalization")
    .since({1, 22})
    .inputs(1)
    .outputs(1)
    .attribute("p", Kind::integer)
    .attribute("axis", Kind::integer)
    .lower(lower_lp_normalization);

void lower_mean_variance_normalization(Lowering& n) {
  Graph& g = n.graph();
  Var *x = n.input(0), *wide = widen(g, x);
  require_float(x, "X");
  std::vector<int> axes = check_axes(n.integers("axes", {0, 2, 3}), x->rank());
  Var* mu = mean(g, wide, axes, true);
  Var* y = elementwise(g, {wide, mu, variance(g, wide, mu, axes)}, [](const std::vector<Expr>& v) {
    return (v[0] - v[1]) / (root_of_squares(v[2]) + constant_like(v[2], 1e-9));
  });
  n.set_output(0, cast(g, y, x->dtype()));
}
METAC_OPERATOR("MeanVarianceNormalization")
    .since({9, 13})
    .inputs(1)
    .outputs(1)
    .attribute("axes", Kind::integers)
    .lower(lower_mean_variance_normalization);

// x / (bias + alpha/size * sum of x^2 over `size` neighbouring channels)^beta
void lower_lrn(Lowering& n) {
  Graph& g = n.graph();
  Var *x = n.input(0), *wide = widen(g, x);
  require_float(x, "X");
  require_rank_at_least(x, 2, "X");
  int64_t size = n.integer("size", 0);
  if (size < 1 || size >= int64_t{1} << 31) fail("size must be at least 1, found ", size);
  double alpha = n.real("alpha", 1e-4), beta = n.real("beta", 0.75), bias = n.real("bias", 1);
  Var* squares = elementwise(g, {wide}, [](const std::vector<Expr>& v) { return v[0] * v[0]; });
  Shape domain = x->shape();
  domain.push_back(size);
  std::vector<Expr> indices = identity_indices(x->rank());
  indices[1] = axis(1) + axis(x->rank()) - Expr((size - 1) / 2);
  Var* neighbours = g.reindex({squares}, domain, indices, {Expr(0) <= indices[1], indices[1] < x->shape()[1]});
  Var* sums = reduce(g, neighbours, {x->rank()}, Reduce::add, false);
  Var* y = elementwise(g, {wide, sums}, [&](const std::vector<Expr>& v) {
    Expr base = constant_like(v[1], bias) + constant_like(v[1], alpha / static_cast<double>(size)) * v[1];
    return v[0] / call(Fn::pow, {base, constant_like(v[1], beta)});
  });
  n.set_output(0, cast(g, y, x->dtype()));
}
METAC_OPERATOR("LRN")
    .since({1, 13})
    .inputs(1)
    .outputs(1)
    .required("size", Kind::integer)
    .attribute("alpha", Kind::real)
    .attribute("beta", Kind::real)
    .attribute("bias", Kind::real)
    .lower(lower_lrn);

}  // namespace
}  // namespace metac
