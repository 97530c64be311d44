// Branches that differ in rank: which one is taken where only shapes decide, and what follows one where data does.
#include <algorithm>

#include "compiler/ops/model_lowering.h"

namespace metac {

bool ModelLowering::takes_then() {
  if (choices_made_ == choices_.size()) choices_.push_back(true);
  return choices_[choices_made_++];
}

std::optional<int> ModelLowering::declared_rank(const std::string& name) const {
  if (!around_) return std::nullopt;
  for (const std::vector<Value>* values : {&around_->outputs, &around_->value_info})
    for (const Value& v : *values)
      if (v.name == name && v.type.shape) return static_cast<int>(v.type.shape->size());
  return std::nullopt;
}

// A model with many such branches is not tried in all ways.
void BranchChoices::take_others() {
  while (!taken.empty() && !taken.back()) taken.pop_back();
  more = ++attempts < 8 && !taken.empty();
  if (more) taken.back() = false;
}

// The node's results may have either rank, which no value can: the nodes that need them move into both branches, where each
// rank is known. What they make must agree again.
void ModelLowering::lower_rest_in_branches(const std::vector<Node>& nodes, size_t at, Scope& scope,
                                           const std::vector<std::string>& results, const BranchRanksDiffer& reason) {
  std::set<std::string> made(nodes[at].outputs.begin(), nodes[at].outputs.end());
  std::vector<Node> others, moved;
  for (size_t k = at + 1; k < nodes.size(); ++k) {
    std::set<std::string> reads(nodes[k].inputs.begin(), nodes[k].inputs.end());
    for_each_subgraph(nodes[k], [&](const ModelGraph& g) { outer_reads(g, reads); });
    const bool needs =
        std::any_of(reads.begin(), reads.end(), [&](const std::string& n) { return !n.empty() && made.count(n); });
    (needs ? moved : others).push_back(nodes[k]);
    if (needs) made.insert(nodes[k].outputs.begin(), nodes[k].outputs.end());
  }
  if (moved.empty()) throw CompileError({model_.path, describe(nodes[at], static_cast<int>(at)), reason.diagnostic.message});
  Node whole = nodes[at];
  whole.outputs.clear();
  for (const std::string& name : results)
    if (made.count(name) && !std::count(whole.outputs.begin(), whole.outputs.end(), name)) whole.outputs.push_back(name);
  if (whole.outputs.empty()) return lower_nodes(others, scope, {});
  for (auto& [name, attribute] : whole.attributes) {
    if (attribute.graphs.empty()) continue;
    auto branch = std::make_shared<ModelGraph>(*attribute.graphs[0]);
    for (size_t k = 0; k < nodes[at].outputs.size(); ++k) {
      if (nodes[at].outputs[k].empty()) continue;
      Node same;
      same.op_type = "Identity";
      same.inputs = {branch->outputs[k].name};
      same.outputs = {nodes[at].outputs[k]};
      branch->nodes.push_back(same);
    }
    branch->nodes.insert(branch->nodes.end(), moved.begin(), moved.end());
    branch->outputs.clear();
    for (const std::string& output : whole.outputs) branch->outputs.push_back({output, {}});
    attribute.graphs[0] = std::move(branch);
  }
  others.push_back(std::move(whole));
  lower_nodes(others, scope, results);
}

}  // namespace metac
