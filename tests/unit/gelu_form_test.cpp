#include "compiler/kernel/gelu_form.h"

#include <gtest/gtest.h>

#include "compiler/ops/activations.h"

namespace metac {
namespace {

Expr number(double value) { return float_constant(value, DType::f32); }
Expr variable() { return load(0, DType::f32, {axis(0)}); }
Expr gelu_of(Expr x, double half, double slope, double cubic, Expr cube) {
  return number(half) * x * (number(1) + call(Fn::tanh, {number(slope) * (x + number(cubic) * cube)}));
}

TEST(GeluForm, IsFoundInAnyForm) {
  const Expr x = variable() + load(1, DType::f32, {axis(0)});
  EXPECT_EQ(argument_of_gelu_tanh(gelu_tanh(x)), x);
  // (x / 2)(1 + tanh(...)) and x (1/2 + tanh(...) / 2), with constants of float32
  const Expr u = number(0.7978845834732056) * x + number(0.7978845834732056 * 0.044714998453855515) * (x * (x * x));
  EXPECT_EQ(argument_of_gelu_tanh((x * number(0.5)) * (call(Fn::tanh, {u}) + number(1))), x);
  EXPECT_EQ(argument_of_gelu_tanh(x * (number(0.5) + number(0.5) * call(Fn::tanh, {u}))), x);
}

TEST(GeluForm, IsNothingElse) {
  const Expr x = variable(), other = load(1, DType::f32, {axis(0)});
  const double slope = 0.7978845608;
  EXPECT_EQ(argument_of_gelu_tanh(gelu_of(x, 0.5, slope, 0.044715, x * x * x)), x);
  for (Expr e : {gelu(x), x, number(0.5), swish(x, 1), gelu_of(x, 1, slope, 0.044715, x * x * x), gelu_of(x, 0.5, 0.8, 0.044715, x * x * x), gelu_of(x, 0.5, slope, 0.04, x * x * x),
                 gelu_of(x, 0.5, slope, 0.044715, x * x), gelu_of(x, 0.5, slope, 0.044715, x * x * x * x), gelu_of(x, 0.5, slope, 0.044715, x * x * other), gelu_tanh(x) * other, gelu_tanh(x) + x})
    EXPECT_FALSE(argument_of_gelu_tanh(e)) << to_string(e);
}

}  // namespace
}  // namespace metac
