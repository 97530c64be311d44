// External ops for the reference evaluator: by the routine's name, on host tensors.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace metac {

struct ExternalCall {
  const Op& op;
  std::vector<const Tensor*> inputs;      // null where the op has no such input
  std::vector<std::vector<int64_t>> output_shapes;  // -1 where a dim depends on a symbol that this call binds
  std::vector<Tensor> outputs;            // to fill
  std::vector<int64_t> symbols;           // to fill: one value per Op::symbols
};

using ExternalFunction = std::function<void(ExternalCall&)>;

// Null when no such routine is known.
const ExternalFunction* find_external(const std::string& routine);

}  // namespace metac
