// Gelu by its tanh approximation in whatever form a model has it: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), as one operator or
// as the products, powers and sums of an exporter.
#pragma once
#include "compiler/ir/expr.h"

namespace metac {

// x, or nothing where `e` is something else, gelu with the error function among it. Constants may differ from the exact ones by
// a few roundings of float32; casts between floating-point types count as nothing.
Expr argument_of_gelu_tanh(Expr e);

}  // namespace metac
