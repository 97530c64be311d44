// Lazy nodes as a Model, which is what the compiler reads.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/lazy/node.h"
#include "compiler/ops/model.h"

namespace metac::lazy {

// A part of the lazy graph that is compiled as one: its nodes in order, the values that it reads and those that it gives.
struct Cut {
  std::vector<Node*> nodes;
  std::vector<Value*> inputs, outputs;
  std::vector<std::pair<size_t, size_t>> next_values;  // output, input: they would have one memory (next_values.h)
};

// One node, its operands as inputs; literals are constants.
Model model_of_node(const Operation& operation, Value* const* inputs, uint32_t input_count, uint32_t output_count);

// An element of an operand that is computed of open dims: (factor * product + offset) / divisor, rounded down, of the
// product of dims `axes` of a value; of a real operand real * product ^ power. Without a value: the offset, or `real`.
struct OpenElement {
  const Value* value = nullptr;
  std::vector<int> axes;
  int64_t factor = 1, offset = 0, divisor = 1;
  double real = 0, power = 1;
};
struct OpenOperand {
  std::vector<OpenElement> elements;
  const TensorType* type = nullptr;
};

// Inputs and outputs have types. Names: of inputs, outputs and initialisers that the caller names; all others are made.
// Inputs that exist and are in `weights` become initialisers.
struct ModelNames {
  std::map<const Value*, std::string> of_values;
  bool weights = false;  // data among the inputs become initialisers
  // Operands, by node and place, and dims of inputs and outputs, by axis, that are not as they are in the cut: open ones
  // (compiler/lazy/open_dims.h).
  std::map<std::pair<const Node*, uint32_t>, OpenOperand> open;
  std::map<const Value*, std::map<int, std::string>> dims;
};
Model model_of(const Cut& cut, const ModelNames& names = {});

// The same structure has the same hash, whatever was appended before.
struct StructureHash structure_of(const Cut& cut);

// A text for messages: "float32[2, 3]".
std::string text_of(const TensorType& type);
// The elements, which must exist.
Tensor tensor_of(const Value& value);

}  // namespace metac::lazy
