#include "compiler/tensor/gelu_form.h"

#include <gtest/gtest.h>

#include "compiler/autodiff/scalar_rules.h"
#include "compiler/ops/pointwise/activations.h"

namespace metac::gelu_form_test {
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
  for (Expr e : {gelu(x), x, number(0.5), swish(x, 1), gelu_of(x, 1, slope, 0.044715, x * x * x),
                 gelu_of(x, 0.5, 0.8, 0.044715, x * x * x), gelu_of(x, 0.5, slope, 0.04, x * x * x),
                 gelu_of(x, 0.5, slope, 0.044715, x * x), gelu_of(x, 0.5, slope, 0.044715, x * x * x * x),
                 gelu_of(x, 0.5, slope, 0.044715, x * x * other), gelu_tanh(x) * other, gelu_tanh(x) + x})
    EXPECT_FALSE(argument_of_gelu_tanh(e)) << to_string(e);
}

// d gelu(x) / dx times `adjoint`, as training has it.
Expr gradient_of(Expr y, Expr x, Expr adjoint) {
  for (auto& [place, gradient] : adjoints_of_loads({y}, {adjoint}))
    if (place == x) return gradient;
  return {};
}

TEST(GeluForm, ItsGradientIsFoundInAnyForm) {
  const Expr x = variable(), sum = load(1, DType::f32, {axis(0)}), residual = load(2, DType::f32, {axis(0)}),
             one = number(1);
  const double slope = 0.7978845608;
  const Expr t = call(Fn::tanh, {number(slope) * x + number(slope * 0.044715) * x * x * x});
  const Expr derivative =
      number(0.5) * (one + t + x * (one - t * t) * (number(slope) + number(3 * slope * 0.044715) * x * x));
  for (Expr e : {gradient_of(gelu_tanh(x), x, sum), gradient_of(x * (number(0.5) + number(0.5) * t), x, sum),
                 sum * derivative, derivative * cast(cast(sum, DType::f16), DType::f32)}) {
    const auto found = match_gelu_tanh_gradient(e);
    ASSERT_TRUE(found) << to_string(e);
    EXPECT_EQ(found->x, x);
    EXPECT_EQ(found->factor, sum);
  }
  const auto scaled = match_gelu_tanh_gradient((number(3) * sum + residual) * derivative);
  ASSERT_TRUE(scaled);
  EXPECT_EQ(scaled->factor, sum * number(3) + residual);
  const Expr narrow = load(0, DType::f16, {axis(0)}), wide = cast(narrow, DType::f32);
  const auto half = match_gelu_tanh_gradient(cast(gradient_of(gelu_tanh(wide), narrow, sum), DType::f32));
  ASSERT_TRUE(half);
  EXPECT_EQ(half->x, narrow);
}

TEST(GeluForm, OtherGradientsAreNot) {
  const Expr x = variable(), sum = load(1, DType::f32, {axis(0)}), other = load(2, DType::f32, {axis(0)});
  const Expr right = gradient_of(gelu_tanh(x), x, sum);
  ASSERT_TRUE(match_gelu_tanh_gradient(right));
  for (Expr e :
       {gradient_of(gelu(x), x, sum), gradient_of(swish(x, 1), x, sum), gradient_of(call(Fn::tanh, {x}), x, sum),
        gelu_tanh(x), sum, number(1), right + sum, right + number(1), right * sum, right * x, right * other,
        right + gradient_of(gelu_tanh(other), other, sum), gradient_of(gelu_of(x, 0.5, 0.8, 0.044715, x * x * x), x, sum),
        gradient_of(gelu_of(x, 0.5, 0.7978845608, 0.04, x * x * x), x, sum), right + other * gelu_tanh(x)})
    EXPECT_FALSE(match_gelu_tanh_gradient(e)) << to_string(e);
}

}  // namespace
}  // namespace metac::gelu_form_test
