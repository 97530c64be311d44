// Derivatives of External routines, by the routine's name. Sorting and selecting routines move values: the adjoint goes
// back to, and the tangent comes from, the places that the routine's index output names.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace metac {

struct ExternalGradient {
  // Adjoints of the outputs (null: zero) to contributions for the inputs (null: none).
  std::function<std::vector<Var*>(Graph&, const Op&, const std::vector<Var*>& adjoints)> reverse;
  // Tangents of the inputs (null: zero) to tangents of the outputs (null: zero).
  std::function<std::vector<Var*>(Graph&, const Op&, const std::vector<Var*>& tangents)> forward;
};

const ExternalGradient* find_external_gradient(const std::string& routine);

}  // namespace metac
