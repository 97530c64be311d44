#include "compiler/session/given_inputs.h"

#include <algorithm>
#include <set>

#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

void check_input(const Model& model, const Value& input, const Tensor& tensor) {
  auto refuse = [&] {
    throw CompileError({model.path, "input " + quoted(input.name),
                        concat("the model wants ", describe_type(input.type), ", given is ", name_of(tensor.dtype), " ",
                               to_string(tensor.shape))});
  };
  if (input.type.dtype && *input.type.dtype != tensor.dtype) refuse();
  if (!input.type.shape) return;
  if (input.type.shape->size() != tensor.shape.size()) refuse();
  for (size_t i = 0; i < tensor.shape.size(); ++i)
    if ((*input.type.shape)[i].value >= 0 && (*input.type.shape)[i].value != tensor.shape[i]) refuse();
}

std::string joined_names(const std::vector<Value>& values) {
  std::string text;
  for (const Value& value : values) text += (text.empty() ? "" : ", ") + quoted(value.name);
  return text.empty() ? "none" : text;
}

[[noreturn]] void fail_at(const Model& model, std::string what) { throw CompileError({model.path, "", std::move(what)}); }

}  // namespace

const Initializer* initializer_of(const Model& model, const std::string& name) {
  for (const Initializer& initializer : model.graph.initializers)
    if (initializer.name == name) return &initializer;
  return nullptr;
}

std::vector<Value> free_inputs(const Model& model) {
  // Before IR 4 every initialiser had to be listed among the inputs too.
  std::set<std::string> initialised;
  for (const Initializer& initializer : model.graph.initializers) initialised.insert(initializer.name);
  std::vector<Value> result;
  for (const Value& input : model.graph.inputs)
    if (!initialised.count(input.name)) result.push_back(input);
  return result;
}

std::string describe_type(const ValueType& type) {
  std::string text(type.dtype ? name_of(*type.dtype) : "unknown type");
  if (!type.shape) return text + " of any rank";
  text += type.shape->empty() ? " scalar" : " ";
  for (size_t i = 0; i < type.shape->size(); ++i) {
    const ModelDim& dim = (*type.shape)[i];
    text += (i ? "x" : "") + (dim.value >= 0 ? std::to_string(dim.value) : dim.symbol.empty() ? "?" : quoted(dim.symbol));
  }
  return text;
}

AcceptedInputs::AcceptedInputs(const Model& model, const DeclaredStates& states) : model_(model), states_(states) {
  std::set<std::string_view> initialised;
  for (const Initializer& initializer : model.graph.initializers) initialised.insert(initializer.name);
  for (const Value& input : model.graph.inputs) {
    if (states.has(input.name)) continue;
    const bool has_default = initialised.count(input.name) > 0;
    if (inputs_.emplace(input.name, Input{&input, has_default}).second && !has_default) ++needed_;
  }
}

void AcceptedInputs::check(const std::map<std::string, Tensor>& inputs) const {
  size_t needed = 0;
  for (const auto& [name, tensor] : inputs) {
    const auto found = inputs_.find(name);
    if (found == inputs_.end()) {
      if (states_.has(name))
        fail_at(model_, concat("input ", quoted(name), " is a state: a stream has it, and can be given it"));
      fail_at(model_, concat("there is no input ", quoted(name), "; the inputs are ", joined_names(free_inputs(model_))));
    }
    check_input(model_, *found->second.value, tensor);
    needed += found->second.has_default ? 0 : 1;
  }
  if (needed == needed_) return;
  for (const Value& input : model_.graph.inputs)
    if (const auto found = inputs_.find(input.name);
        found != inputs_.end() && !found->second.has_default && !inputs.count(input.name))
      fail_at(model_, concat("input ", quoted(input.name), " (", describe_type(input.type), ") is missing"));
}

}  // namespace metac
