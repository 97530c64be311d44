// Gelu by its tanh approximation in whatever form a model has it: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), as one
// operator or as the products, powers and sums of an exporter.
#pragma once
#include <optional>

#include "compiler/ir/expr.h"

namespace metac {

// x, or nothing where `e` is something else, gelu with the error function among it. Constants may differ from the exact ones
// by a few roundings of float32; casts between floating-point types count as nothing.
Expr argument_of_gelu_tanh(Expr e);

// factor * the derivative of gelu (by its tanh approximation) at x, multiplied out or not. The factor is a sum of loads with
// constant coefficients, x a load.
struct GeluTanhGradient {
  Expr x, factor;
};
std::optional<GeluTanhGradient> match_gelu_tanh_gradient(Expr e);

}  // namespace metac
