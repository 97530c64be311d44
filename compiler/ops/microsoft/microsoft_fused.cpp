// The fused operators that ONNX Runtime's optimiser writes into models (domain com.microsoft): each is the operators it
// was fused from, so that our own fusion decides anew.
#include <algorithm>
#include <cctype>

#include "compiler/ops/layers/convolution.h"
#include "compiler/ops/microsoft/microsoft_domain.h"
#include "compiler/ops/pointwise/activations.h"
#include "compiler/ops/pointwise/arithmetic.h"
#include "compiler/ops/sums/normalization.h"
#include "compiler/ops/sums/reductions.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

// x, or x plus a bias that broadcasts to it, through an activation.
LowerFunction biased(std::function<Expr(Expr)> activation) {
  return [activation](Lowering& n) {
    Var *x = n.input(0), *bias = n.optional_input(1);
    require_float(x, "X");
    std::vector<Var*> operands{x};
    if (bias) operands.push_back(broadcast_to(n.graph(), bias, x->shape()));
    n.set_output(
        0, compute(n.graph(), operands, [&](const std::vector<Expr>& v) { return activation(bias ? v[0] + v[1] : v[0]); }));
  };
}
METAC_OPERATOR("Gelu", microsoft_domain).since({1}).inputs(1).outputs(1).lower(biased(gelu));
METAC_OPERATOR("BiasGelu", microsoft_domain).since({1}).inputs(2).outputs(1).lower(biased(gelu));
METAC_OPERATOR("FastGelu", microsoft_domain).since({1}).inputs(1, 2).outputs(1).lower(biased(gelu_tanh));
METAC_OPERATOR("QuickGelu", microsoft_domain)
    .since({1})
    .inputs(1)
    .outputs(1)
    .attribute("alpha", Kind::real)
    .lower([](Lowering& n) {
      double alpha = n.real("alpha", 1.702);
      biased([alpha](Expr x) { return swish(x, alpha); })(n);
    });

Activation activation_of(Lowering& n) {
  std::string name = n.string("activation", "");
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  ActivationParameters parameters = activation_parameters(name);
  return {name, parameters.alpha, parameters.beta};
}

// activation(X * W + B + Z)
void lower_fused_conv(Lowering& n) {
  Graph& g = n.graph();
  Var* y = convolve_node(n);
  if (Var* z = n.optional_input(3)) y = map(g, Fn::add, y, broadcast_to(g, widen(g, z), y->shape()));
  std::vector<double> p = n.reals("activation_params");
  if (n.string("activation", "") == "Clip") {
    if (p.size() != 2) fail("Clip needs two activation_params, found ", p.size());
    y = elementwise(g, {y}, [&](const std::vector<Expr>& v) {
      return min(max(v[0], constant_like(v[0], p[0])), constant_like(v[0], p[1]));
    });
  } else if (n.has("activation")) {
    Activation activation = activation_of(n);
    if (p.size() > 0) activation.alpha = p[0];
    if (p.size() > 1) activation.beta = p[1];
    y = elementwise(g, {y}, [&](const std::vector<Expr>& v) { return activation(v[0]); });
  }
  n.set_output(0, cast(g, y, n.input(0)->dtype()));
}
METAC_OPERATOR("FusedConv", microsoft_domain)
    .since({1})
    .inputs(2, 4)
    .outputs(1)
    .attribute("group", Kind::integer)
    .attribute("pads", Kind::integers)
    .attribute("auto_pad", Kind::string)
    .attribute("strides", Kind::integers)
    .attribute("dilations", Kind::integers)
    .attribute("kernel_shape", Kind::integers)
    .attribute("activation", Kind::string)
    .attribute("activation_params", Kind::reals)
    .lower(lower_fused_conv);

// alpha * A' * B', where the last two axes may be exchanged, and before that the first axis may move behind the batch
// (transBatch): [rows, batch..., columns] as [batch..., rows, columns].
void lower_fused_matmul(Lowering& n) {
  Graph& g = n.graph();
  Var *a = n.input(0), *b = n.input(1);
  require_float(a, "A");
  require_same_dtype(a, b);
  auto batch_first = [&](Var* x, const char* attribute) {
    if (n.integer(attribute, 0) == 0 || x->rank() < 3) return x;
    std::vector<int> order = axes_from(1, x->rank() - 1);
    order.push_back(0);
    order.push_back(x->rank() - 1);
    return transpose(g, x, order);
  };
  auto exchanged = [&](Var* x, const char* attribute) {
    if (n.integer(attribute, 0) == 0 || x->rank() < 2) return x;
    std::vector<int> order = axes_from(0, x->rank());
    std::swap(order[x->rank() - 1], order[x->rank() - 2]);
    return transpose(g, x, order);
  };
  double alpha = n.real("alpha", 1);
  Var* y = matmul(g, exchanged(batch_first(widen(g, a), "transBatchA"), "transA"),
                  exchanged(batch_first(widen(g, b), "transBatchB"), "transB"));
  if (alpha != 1) y = elementwise(g, {y}, [&](const std::vector<Expr>& v) { return v[0] * constant_like(v[0], alpha); });
  n.set_output(0, cast(g, y, a->dtype()));
}
METAC_OPERATOR("FusedMatMul", microsoft_domain)
    .since({1})
    .inputs(2)
    .outputs(1)
    .attribute("alpha", Kind::real)
    .attribute("transA", Kind::integer)
    .attribute("transB", Kind::integer)
    .attribute("transBatchA", Kind::integer)
    .attribute("transBatchB", Kind::integer)
    .lower(lower_fused_matmul);

// The sum of input, skip and bias, normalised along the last axis. Outputs: y, mean, 1/deviation, the sum.
LowerFunction skip_normalization(bool simplified) {
  return [simplified](Lowering& n) {
    Graph& g = n.graph();
    Var *x = n.input(0), *scale = n.input(2), *shift = simplified ? nullptr : n.optional_input(3),
        *bias = n.optional_input(simplified ? 3 : 4);
    require_float(x, "input");
    require_rank_at_least(x, 1, "input");
    std::vector<Var*> operands{x, broadcast_to(g, n.input(1), x->shape())};
    if (bias) operands.push_back(broadcast_to(g, bias, x->shape()));
    Var* sum = elementwise(g, operands, [&](const std::vector<Expr>& v) {
      DType wide = arithmetic_dtype(x->dtype());
      Expr total = cast(v[0], wide) + cast(v[1], wide);
      return bias ? total + cast(v[2], wide) : total;
    });
    std::vector<int> axes{x->rank() - 1};
    double epsilon = n.real("epsilon", simplified ? 1e-6 : 1e-12);
    Var* y;
    if (simplified) {
      y = divide_by_root_mean_square(g, sum, axes, epsilon);
    } else {
      Standardised s = standardise(g, sum, axes, epsilon);
      y = s.value;
      if (n.wants_output(1)) n.set_output(1, s.mean);
      if (n.wants_output(2)) n.set_output(2, s.inverse_deviation);
    }
    if (simplified && (n.wants_output(1) || n.wants_output(2))) fail("the outputs mean and inv_std_var are not supported");
    n.set_output(0, cast(g, scale_and_shift(g, y, scale, shift), x->dtype()));
    if (n.wants_output(3)) n.set_output(3, cast(g, sum, x->dtype()));
  };
}
METAC_OPERATOR("SkipLayerNormalization", microsoft_domain)
    .since({1})
    .inputs(3, 5)
    .outputs(1, 4)
    .attribute("epsilon", Kind::real)
    .lower(skip_normalization(false));
METAC_OPERATOR("SkipSimplifiedLayerNormalization", microsoft_domain)
    .since({1})
    .inputs(3, 4)
    .outputs(1, 4)
    .attribute("epsilon", Kind::real)
    .lower(skip_normalization(true));

}  // namespace
}  // namespace metac
