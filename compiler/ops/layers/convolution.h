// Convolution from the three meta-operators, as in Listing 1 of the Jittor paper: a reindex that makes the windows, a
// broadcast of the weights, a product and a sum.
#pragma once
#include "compiler/ops/layers/windows.h"

namespace metac {

// x [N, C, spatial...], w [O, C/groups, kernel...] of one dtype -> [N, O, out...] of that dtype, which is also the
// accumulator's. Padding reads 0. The iteration domain is [N, (groups, O/groups | O), out..., C/groups, kernel...]; the
// axis `groups` is there only where groups > 1.
Var* convolve(Graph& g, Var* x, Var* w, const std::vector<Window>& windows, Expr groups);

// Reads `group` and `kernel_shape` and checks x, w and the optional bias against them.
int64_t check_convolution(Lowering& n, Var* x, Var* w, Var* bias);
// The node's convolution with its bias, in an arithmetic dtype: inputs X, W, B.
Var* convolve_node(Lowering& n);
Var* convolve_node(Lowering& n, Var* x, Var* w, Var* bias);
// [C] -> [C, 1, 1...] for a result of `rank` axes with its channels at axis 1.
Var* per_channel(Graph& g, Var* v, int rank);

}  // namespace metac
