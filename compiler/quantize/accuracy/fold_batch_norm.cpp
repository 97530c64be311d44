#include "compiler/quantize/accuracy/fold_batch_norm.h"

#include <cmath>

#include "compiler/quantize/graph_uses.h"

namespace metac {
namespace {

// Initialisers get the names of those that they replace, where these have gone: recipes name parameters.
void rename(ModelGraph& graph, const std::map<std::string, std::string>& wanted) {
  const GraphUses uses(graph);
  std::set<std::string> inputs;
  for (const Value& input : graph.inputs) inputs.insert(input.name);
  std::map<std::string, std::string> names;
  std::set<std::string> given;
  for (const auto& [name, old] : wanted)
    if (!uses.constants.count(old) && !uses.producer.count(old) && !inputs.count(old) && given.insert(old).second)
      names[name] = old;
  for (Initializer& each : graph.initializers)
    if (const auto found = names.find(each.name); found != names.end()) each.name = found->second;
  for (Node& node : graph.nodes)
    for (std::string& input : node.inputs)
      if (const auto found = names.find(input); found != names.end()) input = found->second;
}

}  // namespace

int fold_batch_norm(Model& model) {
  const Model before = model;
  const GraphUses uses(before.graph);
  FreshNames fresh(before);
  std::set<int> folded;
  std::map<std::string, std::string> replaced;
  for (size_t i = 0; i < before.graph.nodes.size(); ++i) {
    const Node& norm = before.graph.nodes[i];
    if (norm.op_type != "BatchNormalization" || !norm.domain.empty() || norm.inputs.size() != 5 || norm.outputs.empty())
      continue;
    bool inference = !norm.attributes.count("training_mode") || norm.attributes.at("training_mode").integer == 0;
    for (size_t k = 1; k < norm.outputs.size(); ++k) inference &= norm.outputs[k].empty();
    const auto made = uses.producer.find(norm.inputs[0]);
    if (!inference || made == uses.producer.end() || !uses.stays_inside(norm.inputs[0]) ||
        uses.readers_of(norm.inputs[0]).size() != 1)
      continue;
    const Node& conv = before.graph.nodes[static_cast<size_t>(made->second)];
    if (conv.op_type != "Conv" || !conv.domain.empty() || conv.inputs.size() < 2) continue;
    const Tensor* weights = uses.float_constant(conv.inputs[1]);
    const bool has_bias = conv.inputs.size() > 2 && !conv.inputs[2].empty();
    const Tensor* bias = has_bias ? uses.float_constant(conv.inputs[2]) : nullptr;
    const Tensor* given[4];
    bool constant = weights && (!has_bias || bias);
    for (size_t k = 0; k < 4; ++k) {
      given[k] = uses.float_constant(norm.inputs[k + 1]);
      constant = constant && given[k] && given[k]->element_count() == weights->shape[0];
    }
    if (!constant || (bias && bias->element_count() != weights->shape[0])) continue;
    const auto epsilon = norm.attributes.find("epsilon");
    const double small = epsilon == norm.attributes.end() ? 1e-5 : epsilon->second.real;
    const int64_t channels = weights->shape[0], inner = weights->element_count() / channels;
    std::vector<float> scaled(static_cast<size_t>(channels * inner)), shifted(static_cast<size_t>(channels));
    for (int64_t c = 0; c < channels; ++c) {
      const double factor = number_at(*given[0], c) / std::sqrt(number_at(*given[3], c) + small);
      for (int64_t k = c * inner; k < (c + 1) * inner; ++k)
        scaled[static_cast<size_t>(k)] = static_cast<float>(number_at(*weights, k) * factor);
      shifted[static_cast<size_t>(c)] = static_cast<float>(
          ((bias ? number_at(*bias, c) : 0) - number_at(*given[2], c)) * factor + number_at(*given[1], c));
    }
    Node& now = model.graph.nodes[static_cast<size_t>(made->second)];
    now.inputs.resize(3);
    now.inputs[1] = fresh(conv.inputs[1] + "_normalised");
    now.inputs[2] = fresh((has_bias ? conv.inputs[2] : conv.inputs[1] + "_bias") + "_normalised");
    now.outputs = {norm.outputs[0]};
    replaced[now.inputs[1]] = conv.inputs[1];
    replaced[now.inputs[2]] = has_bias ? conv.inputs[2] : norm.inputs[2];
    model.graph.initializers.push_back({now.inputs[1], make_tensor<float>(DType::f32, weights->shape, scaled)});
    model.graph.initializers.push_back({now.inputs[2], make_tensor<float>(DType::f32, {channels}, shifted)});
    folded.insert(static_cast<int>(i));
  }
  std::vector<Node> rest;
  for (size_t i = 0; i < model.graph.nodes.size(); ++i)
    if (!folded.count(static_cast<int>(i))) rest.push_back(std::move(model.graph.nodes[i]));
  model.graph.nodes = std::move(rest);
  if (!folded.empty()) remove_unread(model.graph, before.graph), rename(model.graph, replaced);
  return static_cast<int>(folded.size());
}

}  // namespace metac
