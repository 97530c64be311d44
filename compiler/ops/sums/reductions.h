// Sums, means and maxima along axes, shared by the operators that normalise.
#pragma once
#include "compiler/ops/registry.h"
#include "compiler/support/diagnostic.h"

namespace metac {

// All axes from `first` on.
std::vector<int> axes_from(int first, int rank);
// sum((x - mean)^2) / n along `axes`, dims kept; x of an arithmetic dtype, mean as mean() gives it with keepdims.
Var* variance(Graph& g, Var* x, Var* mean, const std::vector<int>& axes);
// log(sum(exp(x))) along `axes`, dims kept, without overflow.
Var* log_sum_exp(Graph& g, Var* x, const std::vector<int>& axes);

}  // namespace metac
