// The inputs that a caller gives, against what the model says of them.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ops/model.h"
#include "compiler/session/declared_states.h"

namespace metac {

// The inputs that a caller gives: the graph's, less those that are initialisers only.
std::vector<Value> free_inputs(const Model& model);

// The initialiser of that name; null: there is none.
const Initializer* initializer_of(const Model& model, const std::string& name);

// "float32 1x3x?x?": what the model says of a value.
std::string describe_type(const ValueType& type);

// What a session takes as inputs: the graph's, less its states.
class AcceptedInputs {
 public:
  // What is given must outlive it.
  AcceptedInputs(const Model& model, const DeclaredStates& states);
  // Throws CompileError naming what is missing, unknown or of another dtype, rank or shape.
  void check(const std::map<std::string, Tensor>& inputs) const;

 private:
  struct Input {
    const Value* value;
    bool has_default;  // an initialiser of the same name
  };
  const Model& model_;
  const DeclaredStates& states_;
  std::map<std::string_view, Input> inputs_;
  size_t needed_ = 0;  // of them
};

}  // namespace metac
