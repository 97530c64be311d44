// Activation functions as scalar expressions: the operators of their names, the gates of recurrent networks and fused
// convolutions. The argument is of a dtype that arithmetic_dtype() keeps; formulas are those of ONNX.
#pragma once
#include <string>

#include "compiler/ir/expr.h"

namespace metac {

Expr relu(Expr x);
Expr leaky_relu(Expr x, double alpha);
Expr elu(Expr x, double alpha);
Expr selu(Expr x, double alpha, double gamma);
Expr celu(Expr x, double alpha);
Expr thresholded_relu(Expr x, double alpha);
Expr hard_sigmoid(Expr x, double alpha, double beta);
Expr hard_swish(Expr x);
Expr softplus(Expr x);
Expr softsign(Expr x);
Expr mish(Expr x);
Expr gelu(Expr x);       // with the error function
Expr gelu_tanh(Expr x);  // the tanh approximation
Expr swish(Expr x, double alpha);
Expr shrink(Expr x, double lambda, double bias);

// The activations that LSTM, GRU, RNN and the fused convolutions name, in any case: relu, tanh, sigmoid, affine, leakyrelu,
// thresholdedrelu, scaledtanh, hardsigmoid, elu, softsign, softplus.
struct Activation {
  std::string name;  // lower case
  double alpha = 0, beta = 0;
  Expr operator()(Expr x) const;
};
// How many of (alpha, beta) the activation takes, and their defaults. Throws on an unknown name.
struct ActivationParameters {
  int count = 0;
  double alpha = 0, beta = 0;
};
ActivationParameters activation_parameters(const std::string& lower_case_name);

}  // namespace metac
