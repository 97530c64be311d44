// The inputs of a call, against the model and what the options declare of its dims.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ops/lower_model.h"
#include "compiler/ops/model.h"

namespace metac::library {

// Refuses a tensor of another dtype or shape. It is called `what` and its name in the message.
void check_type(const char* what, const std::string& name, const ValueType& wanted, const Tensor& given);

class InputChecks {
 public:
  // Of a session with these dims and states. Refuses a declared dim that no input has: a misspelt one would change nothing.
  InputChecks(const Model& model, const LowerOptions& options);

  // Refuses what is missing, unknown, or of another dtype or shape; dims of one name of two lengths, or beyond what is
  // declared.
  void check(const std::map<std::string, Tensor>& given) const;
  // The inputs that a caller must give.
  std::vector<Value> needed() const;

 private:
  struct Input {
    Value value;
    bool has_default;       // an initialiser of the same name
    std::vector<int> dims;  // by axis: which of `dims_`; -1: a fixed one, or one without a name
  };
  struct OpenDim {
    std::string name;
    std::optional<Symbol> declared;
  };
  std::map<std::string, Input> inputs_;  // by name
  std::vector<std::string> order_;       // the model's
  std::vector<std::string> states_;
  std::vector<OpenDim> dims_;
  size_t needed_ = 0;
};

}  // namespace metac::library
