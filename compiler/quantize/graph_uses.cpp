#include "compiler/quantize/graph_uses.h"

#include <algorithm>

#include "compiler/ops/model_lowering.h"

namespace metac {

GraphUses::GraphUses(const ModelGraph& graph) {
  for (const Initializer& each : graph.initializers) constants[each.name] = &each.tensor;
  for (const Value& each : graph.outputs) outputs.insert(each.name);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    for (const std::string& name : node.outputs)
      if (!name.empty()) producer[name] = static_cast<int>(i);
    for (const std::string& name : node.inputs) {
      if (name.empty()) continue;
      std::vector<int>& list = readers[name];
      if (list.empty() || list.back() != static_cast<int>(i)) list.push_back(static_cast<int>(i));
    }
    for_each_subgraph(node, [&](const ModelGraph& body) { outer_reads(body, read_by_bodies, 0); });
  }
}

const Tensor* GraphUses::constant(const std::string& name) const {
  const auto found = constants.find(name);
  return found == constants.end() ? nullptr : found->second;
}

const Tensor* GraphUses::float_constant(const std::string& name) const {
  const Tensor* tensor = constant(name);
  return tensor && tensor->dtype == DType::f32 && tensor->element_count() > 0 ? tensor : nullptr;
}

const std::vector<int>& GraphUses::readers_of(const std::string& name) const {
  static const std::vector<int> none;
  const auto found = readers.find(name);
  return found == readers.end() ? none : found->second;
}

FreshNames::FreshNames(const Model& model) { take(model.graph, 0); }

void FreshNames::take(const ModelGraph& graph, int depth) {
  if (depth > 100) return;  // deeper ones are refused where the model is compiled
  for (const auto* list : {&graph.inputs, &graph.outputs, &graph.value_info})
    for (const Value& value : *list) taken_.insert(value.name);
  for (const Initializer& each : graph.initializers) taken_.insert(each.name);
  for (const Node& node : graph.nodes) {
    taken_.insert(node.inputs.begin(), node.inputs.end());
    taken_.insert(node.outputs.begin(), node.outputs.end());
    for_each_subgraph(node, [&](const ModelGraph& body) { take(body, depth + 1); });
  }
}

std::string FreshNames::operator()(const std::string& wanted) {
  std::string name = wanted;
  for (int number = 2; !taken_.insert(name).second; ++number) name = wanted + "_" + std::to_string(number);
  return name;
}

void constants_to_initializers(ModelGraph& graph) {
  std::vector<Node> rest;
  for (Node& node : graph.nodes) {
    const auto value = node.attributes.find("value");
    const bool plain = node.op_type == "Constant" && node.domain.empty() && value != node.attributes.end() &&
                       value->second.kind == Attribute::Kind::tensor && value->second.tensors.size() == 1;
    if (plain)
      graph.initializers.push_back({node.outputs.at(0), value->second.tensors[0]});
    else
      rest.push_back(std::move(node));
  }
  graph.nodes = std::move(rest);
}

void remove_unread(ModelGraph& graph, const ModelGraph& before) {
  const GraphUses uses(graph);
  std::set<std::string> was, given;
  for (const Initializer& each : before.initializers) was.insert(each.name);
  const auto unread = [&](const std::string& name) { return uses.readers_of(name).empty() && uses.stays_inside(name); };
  std::erase_if(graph.initializers, [&](const Initializer& each) { return unread(each.name); });
  std::erase_if(graph.inputs, [&](const Value& input) { return was.count(input.name) && unread(input.name); });
  for (const Value& input : graph.inputs) given.insert(input.name);
  std::erase_if(graph.value_info, [&](const Value& value) {
    return !uses.producer.count(value.name) && !uses.constants.count(value.name) && !given.count(value.name);
  });
}

}  // namespace metac
