// The types of what an operation gives: by lowering a model of one node, once for each operation and types of operands.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "compiler/lazy/node.h"
#include "compiler/lazy/structure_hash.h"

namespace metac::lazy {

struct Inferred {
  std::vector<const TensorType*> types;  // of the outputs
  uint64_t needs = 0;     // operands whose values decide types: they must be literals, and then it is asked again
  bool by_value = false;  // the shapes follow from elements that no literal stands for: it is run at once
};

class TypeInference {
 public:
  // Throws CompileError where the operation does not take such operands. Operands may be null: left out.
  const Inferred& infer(const Operation* operation, Value* const* inputs, uint32_t input_count, uint32_t output_count);

 private:
  Inferred inferred(const Operation* operation, Value* const* inputs, uint32_t input_count, uint32_t output_count) const;

  std::unordered_map<StructureHash, Inferred> known_;
};

}  // namespace metac::lazy
