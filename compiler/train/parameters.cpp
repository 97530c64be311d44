#include "compiler/train/parameters.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "compiler/support/diagnostic.h"
#include "compiler/support/nearest_name.h"
#include "compiler/train/forms/exported_parameters.h"

namespace metac {
namespace {

bool matches_any(const std::vector<Pattern>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const Pattern& p) { return matches(p.glob, name); });
}

}  // namespace

ParameterTerms terms_of(const Recipe& recipe, const std::string& name, bool trains) {
  ParameterTerms terms{recipe.optimiser["weight_decay"], 1, trains};
  for (const GroupRecipe& group : recipe.groups) {
    if (!matches_any(group.match, name)) continue;
    terms.weight_decay = group.weight_decay.value_or(terms.weight_decay);
    terms.rate_scale = group.rate_scale.value_or(terms.rate_scale);
    if (group.frozen) terms.trains = !*group.frozen;
  }
  return terms;
}

void expect_matches(const std::vector<Pattern>& patterns, const std::vector<std::string>& names, const std::string& owner) {
  for (const Pattern& p : patterns)
    if (std::none_of(names.begin(), names.end(), [&](const std::string& name) { return matches(p.glob, name); }))
      throw CompileError(
          {p.place, "",
           concat("no parameter matches ", quoted(p.glob), "; there are ", names.size(), " in ", owner,
                  names.empty() ? "" : concat(", the first is ", quoted(names[0])), suggestion(p.glob, names))});
}

bool is_structure(const Node& node, size_t input) {
  static const std::map<std::string, size_t> first = {
      {"Resize", 1},           {"Upsample", 1},          {"Dropout", 1},  {"Pad", 1},   {"Clip", 1},  {"QuantizeLinear", 1},
      {"DequantizeLinear", 1}, {"NonMaxSuppression", 2}, {"RoiAlign", 1}, {"Range", 0}, {"CumSum", 1}};
  if (node.domain == "metac") return node.op_type == "fake_quantize" && input >= 1;
  auto found = first.find(node.op_type);
  return node.domain.empty() && found != first.end() && input >= found->second;
}

void names_read(const Node& node, std::set<std::string>& names, int depth) {
  names.insert(node.inputs.begin(), node.inputs.end());
  if (node.domain == "ai.onnx.preview.training" && node.op_type == "Gradient")  // reads values by attributes
    for (const auto& [attribute, value] : node.attributes) {
      names.insert(value.strings.begin(), value.strings.end());
      if (!value.string.empty()) names.insert(value.string);
    }
  if (depth > 100) return;
  for (const auto& [attribute, value] : node.attributes)
    for (const auto& graph : value.graphs)
      if (graph) {
        for (const Node& inner : graph->nodes) names_read(inner, names, depth + 1);
        for (const Value& output : graph->outputs) names.insert(output.name);
      }
}

std::set<std::string> values_behind(const ModelGraph& graph, const std::vector<std::string>& outputs) {
  std::unordered_map<std::string, const Node*> producer;
  for (const Node& node : graph.nodes)
    for (const std::string& output : node.outputs) producer[output] = &node;
  std::set<std::string> seen;
  std::vector<std::string> open = outputs;
  while (!open.empty()) {
    std::string name = std::move(open.back());
    open.pop_back();
    if (name.empty() || !seen.insert(name).second) continue;
    auto found = producer.find(name);
    if (found == producer.end()) continue;
    std::set<std::string> reads;
    names_read(*found->second, reads);
    open.insert(open.end(), reads.begin(), reads.end());
  }
  return seen;
}

ParameterChoice choose_parameters(const Model& model, const Recipe& recipe, const std::set<std::string>& read,
                                  const std::set<int>& statistics, const std::set<std::string>& scales) {
  std::set<std::string> structure;
  for (const Node& node : model.graph.nodes)
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (is_structure(node, i) && !scales.count(node.inputs[i])) structure.insert(node.inputs[i]);
  ParameterChoice choice;
  const std::map<std::string, bool> roles = exported_roles(model.graph);
  std::vector<std::string> names, buffers;
  int64_t trained = 0, frozen = 0, halves = 0;
  for (size_t i = 0; i < model.graph.initializers.size(); ++i) {
    const Initializer& init = model.graph.initializers[i];
    if (!is_float(init.tensor.dtype) || !read.count(init.name) || structure.count(init.name) ||
        statistics.count(static_cast<int>(i)) || init.tensor.element_count() == 0)
      continue;
    names.push_back(init.name);
    const auto role = roles.find(init.name);
    const bool scale = scales.count(init.name) > 0;
    bool trains = !recipe.train.empty() ? matches_any(recipe.train, init.name)
                  : role != roles.end() ? role->second
                                        : scale || !init.tensor.shape.empty();
    if (recipe.train.empty() && role != roles.end() && !role->second) buffers.push_back(init.name);
    if (matches_any(recipe.freeze, init.name)) trains = false;
    const ParameterTerms terms = terms_of(recipe, init.name, trains);
    trains = terms.trains;
    if (trains && init.tensor.dtype != DType::f32 && init.tensor.dtype != DType::f64) ++halves, trains = false;
    (trains ? trained : frozen) += init.tensor.element_count();
    if (trains)
      choice.trained.push_back({static_cast<int>(i), scale ? 0 : terms.weight_decay, terms.rate_scale});
    else
      choice.frozen.push_back(static_cast<int>(i));
  }
  expect_matches(recipe.train, names, quoted(model.path));
  expect_matches(recipe.freeze, names, quoted(model.path));
  for (const GroupRecipe& group : recipe.groups) expect_matches(group.match, names, quoted(model.path));
  const bool quantised = std::any_of(model.graph.nodes.begin(), model.graph.nodes.end(),
                                     [](const Node& node) { return node.op_type == "DequantizeLinear"; });
  if (choice.trained.empty())
    throw CompileError(
        {recipe.path, "",
         concat("nothing is left to train: of ", names.size(), " float initialisers that the loss depends on, ", halves,
                " are of half precision and ", choice.frozen.size() - static_cast<size_t>(halves), " are frozen or scalars",
                quantised ? "; weights that are integers do not train: train the float32 network, with "
                            "\"quantization\" in the recipe"
                          : "")});
  choice.notes.push_back(
      concat(choice.trained.size(), " parameters train (", trained, " numbers)",
             choice.frozen.empty() ? "" : concat(", ", choice.frozen.size(), " stay as they are (", frozen, " numbers)")));
  if (!buffers.empty())
    choice.notes.push_back(
        concat(buffers.size(), " of them are buffers in PyTorch, which nothing trains: the first is ", quoted(buffers[0])));
  std::set<int> trained_ones;
  for (const TrainedParameter& p : choice.trained) trained_ones.insert(p.initializer);
  require_known_parameters(model, recipe, trained_ones);
  if (halves) choice.notes.push_back(concat(halves, " parameters are of half precision and stay as they are"));
  return choice;
}

}  // namespace metac
