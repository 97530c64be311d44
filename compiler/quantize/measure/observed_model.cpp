#include "compiler/quantize/measure/observed_model.h"

#include <algorithm>
#include <set>

#include "compiler/ops/lower_model.h"

namespace metac {
namespace {

std::set<std::string> names_of(const std::vector<Value>& values) {
  std::set<std::string> names;
  for (const Value& value : values) names.insert(value.name);
  return names;
}

// What is no tensor cannot be an output.
bool makes_sequences(const Node& node) {
  return node.op_type == "SplitToSequence" ||
         (node.op_type.starts_with("Sequence") && node.op_type != "SequenceAt" && node.op_type != "SequenceLength");
}

}  // namespace

ObservedModel::ObservedModel(Model model, const std::vector<std::string>& values, const SessionOptions& options) {
  std::set<std::string> outputs = names_of(model.graph.outputs), inputs = names_of(model.graph.inputs);
  for (const std::string& name : values) {
    if (inputs.count(name))
      given_.push_back(name);
    else if (outputs.insert(name).second)
      model.graph.outputs.push_back({name, {}});
  }
  session_ = std::make_unique<Session>(std::move(model), options);
}

NamedTensors ObservedModel::run(const NamedTensors& inputs) {
  NamedTensors result;
  for (auto& [name, tensor] : session_->run(inputs)) result[name] = std::move(tensor);
  for (const std::string& name : given_)
    if (auto found = inputs.find(name); found != inputs.end()) result[name] = found->second;
  return result;
}

std::map<std::string, KnownType> value_types(const Model& model, const LowerOptions& options) {
  Model observed = model;
  const std::set<std::string> made = names_of(model.graph.outputs);
  for (const Node& node : model.graph.nodes)
    for (const std::string& name : node.outputs)
      if (!name.empty() && !makes_sequences(node) && !made.count(name)) observed.graph.outputs.push_back({name, {}});
  std::map<std::string, KnownType> types;
  const std::unique_ptr<Graph> graph = lower_model(observed, options);
  for (size_t i = 0; i < observed.graph.outputs.size() && i < graph->outputs.size(); ++i)
    if (const Var* var = graph->outputs[i]; var && var->type.kind == TypeKind::tensor)
      types[observed.graph.outputs[i].name] = {var->dtype(), var->rank()};
  for (const Value& input : model.graph.inputs)
    if (input.type.dtype && input.type.shape)
      types[input.name] = {*input.type.dtype, static_cast<int>(input.type.shape->size())};
  for (const Initializer& each : model.graph.initializers)
    types[each.name] = {each.tensor.dtype, static_cast<int>(each.tensor.shape.size())};
  return types;
}

}  // namespace metac
