// Weights for minimal filtering (target/cpu/strategies/lower_winograd.h), made once by `prepare`, or in every run where the
// weights are no parameters.
#pragma once
#include "compiler/target/cpu/layouts/pack_operand.h"
#include "compiler/target/cpu/strategies/cpu_strategies.h"

namespace metac {

// U[outer..., lane block, (i, j), channel, lane] = sum of g[i, ky] * g[j, kx] * packed[outer..., lane block, ..., lane]. The
// load is at position (0, 0). packed_load: the contraction's load of its packed operand.
PackedOperand transform_weights(Graph& graph, const Definition& d, Expr packed_load, const WinogradPlan& plan);

}  // namespace metac
