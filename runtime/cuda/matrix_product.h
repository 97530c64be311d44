// A matrix product as a vendor library computes it. The host's side of a contraction's kernel asks for it first and starts
// its own code where the answer is no: the library is not linked, does not know the case, or has no memory.
#pragma once
#include "launch.h"

namespace METAC_RUNTIME_NAMESPACE {

enum Activation : int64_t { no_activation, relu_activation, clipped_activation, gelu_tanh_activation };

// result[batch][row][column] = activation(scale * sum over step of a[batch][row][step] * b[batch][step][column] + residual + bias[column])
// All numbers, so that two products are the same where their bytes are.
struct MatrixProduct {
  // Elements from one matrix of the batch to the next, and between rows; `by_column`: between columns, rows are neighbours.
  struct Matrix {
    int64_t batch, leading, by_column;
  };
  int64_t dtype;                           // ScalarType of everything: f32, f16, bf16. Sums are float.
  int64_t batch, rows, columns, steps;
  Matrix a, b, result, residual;
  double scale;
  int64_t activation;
  int64_t tf32;                            // float32 operands may be rounded to 10 bits of mantissa
};

struct MatrixOperands {
  const void *a, *b, *bias, *residual;     // null: none
  void* result;
};

// False: nothing was started.
bool multiply(const MatrixProduct& product, const MatrixOperands& operands, void* launch);

}  // namespace METAC_RUNTIME_NAMESPACE
