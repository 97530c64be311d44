#include "compiler/session/declared_states.h"

#include <algorithm>

#include "compiler/session/given_inputs.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

bool is_numbers(const ValueType& type) {
  return type.containers == std::vector<std::string>{"tensor"} && type.dtype && *type.dtype != DType::string && type.shape;
}

}  // namespace

DeclaredStates::DeclaredStates(const Model& model, std::vector<StateNames> names) : names_(std::move(names)) {
  const auto find = [&](const std::vector<Value>& values, const std::string& name, const char* what) {
    const auto found = std::find_if(values.begin(), values.end(), [&](const Value& value) { return value.name == name; });
    if (found == values.end() || (&values == &model.graph.inputs && initializer_of(model, name)))
      throw CompileError({model.path, "", concat("states: the model has no ", what, " ", quoted(name))});
    return &*found;
  };
  for (const StateNames& n : names_) {
    const Value* const input = find(model.graph.inputs, n.input, "input");
    const Value* const output = find(model.graph.outputs, n.output, "output");
    if (!is_numbers(input->type))
      throw CompileError({model.path, "",
                          concat("state ", quoted(n.input), " is ", describe_type(input->type),
                                 "; the model must declare its dtype and rank")});
    inputs_.push_back(input);
    grown_axes_.push_back(-1);
    const auto& before = *input->type.shape;
    if (!output->type.shape || output->type.shape->size() != before.size()) continue;
    std::vector<size_t> differing;  // several: the names tell nothing
    for (size_t k = 0; k < before.size(); ++k) {
      const ModelDim& after = (*output->type.shape)[k];
      if (before[k].value < 0 && !before[k].symbol.empty() && !after.symbol.empty() && before[k].symbol != after.symbol)
        differing.push_back(k);
    }
    if (differing.size() != 1) continue;
    grown_axes_.back() = static_cast<int>(differing[0]);
    growing_dims_.insert(before[differing[0]].symbol);
    growing_dims_.insert((*output->type.shape)[differing[0]].symbol);
  }
}

bool DeclaredStates::has(const std::string& input) const {
  return std::any_of(names_.begin(), names_.end(), [&](const StateNames& n) { return n.input == input; });
}

}  // namespace metac
