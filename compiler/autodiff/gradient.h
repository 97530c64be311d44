// Derivatives as ops of the same graph, so that they are differentiated, fused and compiled like everything else: the
// result of gradient() is an ordinary part of the graph, and its gradient is the next order.
//
// The closure rules: Reindex and ReindexReduce(add) are each other's transposes; an Elementwise op goes by the table of
// scalar_rules.h; max and min give their adjoint to the elements that attain them, in equal shares; If and Loop become
// an If and a reverse Loop over saved states; External ops go by the registered rules of external_rules.h.
#pragma once
#include <vector>

#include "compiler/ir/graph.h"

namespace metac {

// Reverse mode. Returns, for each of `wrt`, the Var sum_k <seeds[k], d outputs[k] / d wrt> of the shape and dtype of wrt;
// zeros where no output depends on it. seeds[k] has the shape and dtype of outputs[k]; null: 1, and outputs[k] must have
// rank 0 or one element. Vars marked stop_grad pass nothing on. New ops are appended to the graph (its top level, or
// the open region, which must hold the ops in question). Throws CompileError where wrt or an output is not of a
// floating-point dtype or something on the way has no derivative.
std::vector<Var*> gradient(Graph& graph, const std::vector<Var*>& outputs, const std::vector<Var*>& seeds,
                           const std::vector<Var*>& wrt);
inline std::vector<Var*> gradient(Graph& graph, Var* output, const std::vector<Var*>& wrt) {
  return gradient(graph, {output}, {nullptr}, wrt);
}

// Forward mode: the directional derivatives of `outputs` along `tangents` (shapes and dtypes of wrt).
std::vector<Var*> jvp(Graph& graph, const std::vector<Var*>& outputs, const std::vector<Var*>& wrt,
                      const std::vector<Var*>& tangents);

}  // namespace metac
