// A matrix product as a vendor library computes it. The host's side of a contraction's kernel asks for it first and starts
// its own code where the answer is no: the library is not linked, does not know the case, or has no memory.
#pragma once
#include "launch.h"

namespace METAC_RUNTIME_NAMESPACE {

enum Activation : int64_t { no_activation, relu_activation, gelu_tanh_activation, gelu_tanh_gradient };
enum BiasGradient : int64_t { no_bias_gradient, bias_gradient_of_rows, bias_gradient_of_columns };

// result[batch][row][column] = activation(scale * sum over step of a[batch][row][step] * b[batch][step][column] + residual +
// bias[column]) In training gelu leaves what it was applied to in `aux`, and the gradient of gelu is multiplied by the
// derivative there. A gradient of a bias is a second result: sums[row] = sum over step of a[row][step], or sums[column] =
// sum over step of b[step][column]. All numbers, so that two products are the same where their bytes are.
struct MatrixProduct {
  // Elements from one matrix of the batch to the next, and between rows; `by_column`: between columns, rows are neighbours.
  struct Matrix {
    int64_t batch, leading, by_column;
  };
  int64_t dtype;  // ScalarType of everything: f32, f16, bf16. Sums are float.
  int64_t batch, rows, columns, steps;
  Matrix a, b, result, residual, aux;
  double scale;
  int64_t activation, bias_gradient;
  int64_t tf32;  // float32 operands may be rounded to 10 bits of mantissa
};

struct MatrixOperands {
  const void *a, *b, *bias, *residual;  // null: none
  void *result, *aux, *sums;
};

// False: nothing was started.
bool multiply(const MatrixProduct& product, const MatrixOperands& operands, void* launch);

}  // namespace METAC_RUNTIME_NAMESPACE
