// The steps of layer normalisation and its kin; x of an arithmetic dtype.
#pragma once
#include <vector>

#include "compiler/ir/graph.h"

namespace metac {

struct Standardised {
  Var *mean, *inverse_deviation, *value;  // dims of the first two are kept
};
// (x - mean) / sqrt(variance + epsilon) along `axes`.
Standardised standardise(Graph& g, Var* x, const std::vector<int>& axes, double epsilon);
// x / sqrt(mean(x^2) + epsilon) along `axes`.
Var* divide_by_root_mean_square(Graph& g, Var* x, const std::vector<int>& axes, double epsilon);
// y * scale + bias; both are cast to y's dtype and must broadcast to its shape. bias may be null.
Var* scale_and_shift(Graph& g, Var* y, Var* scale, Var* bias);

}  // namespace metac
