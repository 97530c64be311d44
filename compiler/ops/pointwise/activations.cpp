#include "compiler/ops/pointwise/activations.h"

#include <cmath>

#include "compiler/ops/pointwise/arithmetic.h"

namespace metac {

static Expr zero_of(Expr x) { return constant_like(x, 0); }
static Expr one_of(Expr x) { return constant_like(x, 1); }
static Expr call1(Fn fn, Expr x) { return call(fn, {x}); }

Expr relu(Expr x) { return max(x, zero_of(x)); }
Expr leaky_relu(Expr x, double alpha) { return select(x < zero_of(x), x * constant_like(x, alpha), x); }
Expr elu(Expr x, double alpha) { return select(x < zero_of(x), call1(Fn::expm1, x) * constant_like(x, alpha), x); }
Expr selu(Expr x, double alpha, double gamma) { return elu(x, alpha) * constant_like(x, gamma); }
Expr celu(Expr x, double alpha) {
  Expr a = constant_like(x, alpha);
  return select(x < zero_of(x), call1(Fn::expm1, x / a) * a, x);
}
Expr thresholded_relu(Expr x, double alpha) { return select(constant_like(x, alpha) < x, x, zero_of(x)); }
Expr hard_sigmoid(Expr x, double alpha, double beta) {
  return max(min(x * constant_like(x, alpha) + constant_like(x, beta), one_of(x)), zero_of(x));
}
Expr hard_swish(Expr x) { return x * hard_sigmoid(x, 1.0 / 6, 0.5); }
// log(1 + e^x) without overflow: max(x, 0) + log1p(e^-|x|), with selects for max and |x|: at 0 their derivatives by
// convention would not add up to that of the smooth whole.
Expr softplus(Expr x) {
  Expr positive = zero_of(x) < x;
  return select(positive, x, zero_of(x)) + call1(Fn::log1p, call1(Fn::exp, select(positive, -x, x)));
}
Expr softsign(Expr x) { return x / (one_of(x) + call1(Fn::abs, x)); }
Expr mish(Expr x) { return x * call1(Fn::tanh, softplus(x)); }
Expr gelu(Expr x) { return constant_like(x, 0.5) * x * (one_of(x) + call1(Fn::erf, x * constant_like(x, std::sqrt(0.5)))); }
Expr gelu_tanh(Expr x) {
  Expr inner = constant_like(x, std::sqrt(2 / M_PI)) * (x + constant_like(x, 0.044715) * x * x * x);
  return constant_like(x, 0.5) * x * (one_of(x) + call1(Fn::tanh, inner));
}
Expr swish(Expr x, double alpha) { return x * call1(Fn::sigmoid, alpha == 1 ? x : x * constant_like(x, alpha)); }
Expr shrink(Expr x, double lambda, double bias) {
  Expr b = constant_like(x, bias);
  return select(x < constant_like(x, -lambda), x + b, select(constant_like(x, lambda) < x, x - b, zero_of(x)));
}

ActivationParameters activation_parameters(const std::string& name) {
  if (name == "relu" || name == "tanh" || name == "sigmoid" || name == "softsign" || name == "softplus") return {};
  if (name == "leakyrelu") return {1, 0.01, 0};
  if (name == "thresholdedrelu" || name == "elu") return {1, 1, 0};
  if (name == "affine" || name == "scaledtanh") return {2, 1, name == "affine" ? 0.0 : 1.0};
  if (name == "hardsigmoid") return {2, 0.2, 0.5};
  fail("activation ", quoted(name), " is not known");
}

Expr Activation::operator()(Expr x) const {
  if (name == "relu") return relu(x);
  if (name == "tanh") return call1(Fn::tanh, x);
  if (name == "sigmoid") return call1(Fn::sigmoid, x);
  if (name == "softsign") return softsign(x);
  if (name == "softplus") return softplus(x);
  if (name == "leakyrelu") return leaky_relu(x, alpha);
  if (name == "thresholdedrelu") return thresholded_relu(x, alpha);
  if (name == "elu") return elu(x, alpha);
  if (name == "hardsigmoid") return hard_sigmoid(x, alpha, beta);
  if (name == "affine") return x * constant_like(x, alpha) + constant_like(x, beta);
  if (name == "scaledtanh") return call1(Fn::tanh, x * constant_like(x, beta)) * constant_like(x, alpha);
  fail("activation ", quoted(name), " is not known");
}

}  // namespace metac
