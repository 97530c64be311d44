#include "compiler/lazy/infer_types.h"

#include <optional>
#include <set>

#include "compiler/ir/expr_table.h"
#include "compiler/lazy/lazy_model.h"
#include "compiler/ops/lower_model.h"

namespace metac::lazy {
namespace {

constexpr int64_t most_elements = 64;  // of operands whose values lowering reads

bool may_decide(const Value& value, bool reals) {
  const TensorType& type = *value.type;
  return value.content == 0 && type.rank() <= 1 && type.elements <= most_elements &&
         (is_integer(type.dtype) || (reals && is_float(type.dtype)));
}

// Operators whose first operand says what is made.
bool first_decides(const Operation& operation) {
  static const std::set<std::string> names = {"ConstantOfShape", "Range",           "HannWindow", "HammingWindow",
                                              "BlackmanWindow",  "MelWeightMatrix", "fill"};
  return names.count(operation.name) > 0;
}

// The operands that an attempt takes for known.
uint64_t candidates(const Operation& operation, Value* const* inputs, uint32_t count, bool reals) {
  uint64_t mask = 0;
  for (uint32_t k = first_decides(operation) ? 0 : 1; k < count && k < 64; ++k)
    if (inputs[k] && may_decide(*inputs[k], reals)) mask |= uint64_t{1} << k;
  return mask;
}

// The types with the operands of `known` as any literals of their kind, or none where they are not static. What literals
// hold is not known here, so that `known` only stands for "might be static if it were".
std::optional<std::vector<const TensorType*>> lowered_types(const Operation* operation, Value* const* inputs,
                                                            uint32_t input_count, uint32_t output_count) {
  const ExprScope scope;
  const std::unique_ptr<Graph> graph =
      lower_model(model_of_node(*operation, inputs, input_count, output_count), LowerOptions());
  std::vector<const TensorType*> types;
  for (const Var* output : graph->outputs) {
    if (!is_static(output->shape())) return std::nullopt;
    types.push_back(tensor_type(output->dtype(), static_shape(output->shape())));
  }
  return types;
}

}  // namespace

const Inferred& TypeInference::infer(const Operation* operation, Value* const* inputs, uint32_t input_count,
                                     uint32_t output_count) {
  StructureHash key;
  key.mix(operation->number);
  key.mix(uint64_t{output_count} << 32 | input_count);
  for (uint32_t k = 0; k < input_count; ++k) {
    key.mix(inputs[k] ? inputs[k]->type->number : 0);
    if (inputs[k] && inputs[k]->content) key.mix(~inputs[k]->content);
  }
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  return known_.emplace(key, inferred(operation, inputs, input_count, output_count)).first->second;
}

Inferred TypeInference::inferred(const Operation* operation, Value* const* inputs, uint32_t input_count,
                                 uint32_t output_count) const {
  Inferred result;
  std::optional<CompileError> refused;
  try {
    if (auto types = lowered_types(operation, inputs, input_count, output_count)) {
      result.types = std::move(*types);
      return result;
    }
  } catch (const CompileError& error) {
    refused.emplace(error);
  }
  // Integers first: shapes, axes and counts are integers, and what they say is seldom another thing in the next step.
  result.needs = candidates(*operation, inputs, input_count, false);
  if (!result.needs) result.needs = candidates(*operation, inputs, input_count, true);
  if (result.needs) return result;
  if (refused) throw CompileError({"", "", concat(operation->name, ": ", refused->diagnostic.message)});
  result.by_value = true;
  return result;
}

}  // namespace metac::lazy
