// Softmax over several axes at once, in the form that fuses into one kernel: maximum, difference, exp, sum, quotient.
#pragma once
#include "compiler/ir/graph.h"

namespace metac {

// x of an arithmetic dtype. No axes: every element is a row of its own.
Var* softmax(Graph& g, Var* x, const std::vector<int>& axes);
Var* log_softmax(Graph& g, Var* x, const std::vector<int>& axes);

}  // namespace metac
