// The states of a session's model, as the model declares them.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "compiler/ops/model.h"
#include "compiler/ops/states.h"

namespace metac {

// The states that a session keeps, and what the model says of them. The model must outlive it.
class DeclaredStates {
 public:
  // Throws CompileError where an input or output is not there, or is no tensor of a declared dtype and rank.
  DeclaredStates(const Model& model, std::vector<StateNames> names);

  const std::vector<StateNames>& names() const { return names_; }
  const std::vector<const Value*>& inputs() const { return inputs_; }  // as the model declares them, in the same order
  bool has(const std::string& input) const;
  // The axis along which the state grows, as far as the names of its dims tell; -1: they do not.
  int grown_axis(size_t state) const { return grown_axes_[state]; }
  // The names of dims that are longer after a run than before it, and of those that are then as long: no program is for one
  // length of them.
  const std::set<std::string>& growing_dims() const { return growing_dims_; }

 private:
  std::vector<StateNames> names_;
  std::vector<const Value*> inputs_;
  std::vector<int> grown_axes_;
  std::set<std::string> growing_dims_;
};

}  // namespace metac
