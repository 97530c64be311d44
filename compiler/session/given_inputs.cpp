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

void check_inputs(const Model& model, const std::map<std::string, Tensor>& inputs) {
  std::set<std::string> initialised;
  for (const Initializer& initializer : model.graph.initializers) initialised.insert(initializer.name);
  for (const Value& input : model.graph.inputs) {
    const auto found = inputs.find(input.name);
    if (found != inputs.end())
      check_input(model, input, found->second);
    else if (!initialised.count(input.name))
      throw CompileError(
          {model.path, "", concat("input ", quoted(input.name), " (", describe_type(input.type), ") is missing")});
  }
  for (const auto& [name, unused] : inputs) {
    auto same = [&, &name = name](const Value& input) { return input.name == name; };
    if (std::none_of(model.graph.inputs.begin(), model.graph.inputs.end(), same))
      throw CompileError({model.path, "", concat("there is no input ", quoted(name), "; the inputs are ",
                                                 joined_names(free_inputs(model)))});
  }
}

}  // namespace metac
