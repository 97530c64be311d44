// Derivatives of the user's C++: by the C++ that the user wrote for them.
#pragma once
#include <functional>
#include <vector>

#include "compiler/ir/graph.h"

namespace metac {

// For every input the gradient by it where the output's adjoint is `adjoint`; null where it has none or is not active.
// Throws CompileError where an active input's is not written.
std::vector<Var*> code_gradients(Graph& graph, const Op& op, Var* adjoint, const std::function<bool(const Var*)>& is_active);

// The output's tangent; tangents[k] null: zero. Throws CompileError where it is not written.
Var* code_tangent(Graph& graph, const Op& op, const std::vector<Var*>& tangents);

}  // namespace metac
