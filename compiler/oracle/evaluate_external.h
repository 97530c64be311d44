// External ops for the reference evaluator: the runtime's own routines, called on host tensors.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace metac {

bool is_external_routine(const std::string& routine);

// Takes the values that the routine found for Op::symbols and returns the shapes of the outputs.
using BindSymbols = std::function<std::vector<std::vector<int64_t>>(const std::vector<int64_t>&)>;

// The outputs. A routine that refuses its input throws CompileError with its message.
std::vector<Tensor> call_external(const Op& op, const std::vector<const Tensor*>& inputs, const BindSymbols& bind);

}  // namespace metac
