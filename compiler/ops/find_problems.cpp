// Every node of a model that cannot be lowered: lowering goes on behind one that failed, with nodes that do not need its
// values.
#include <algorithm>

#include "compiler/ir/expr_table.h"
#include "compiler/ops/model_lowering.h"

namespace metac {
namespace {

// What can be done about a node that its operator's lowering refused, judged by its operands.
std::string advice_for(const std::vector<Var*>& inputs, const OpSchema* schema) {
  auto refused = [&](const Var* v) {
    return v && schema && std::count(schema->not_yet.begin(), schema->not_yet.end(), v->dtype());
  };
  auto open = [](const Var* v) {
    return v && std::any_of(v->shape().begin(), v->shape().end(), [](Dim d) { return !d.if_int(); });
  };
  if (std::any_of(inputs.begin(), inputs.end(), refused))
    return "cast in front of the node to a type that it takes, and back behind it";
  if (std::any_of(inputs.begin(), inputs.end(), open))
    return "where the message asks for what is known only at run time, fix it: --shape NAME=1x3x224x224, --dim NAME=8, or a "
           "constant in the model";
  return "change the node as the message says, or write it in other operators";
}

}  // namespace

bool ModelLowering::reads_unknown(const Node& node) const {
  if (unknown_.empty()) return false;
  std::set<std::string> reads(node.inputs.begin(), node.inputs.end());
  for_each_subgraph(node, [&](const ModelGraph& g) { outer_reads(g, reads); });
  return std::any_of(reads.begin(), reads.end(),
                     [&](const std::string& name) { return !name.empty() && unknown_.count(name) > 0; });
}

void ModelLowering::keep_finding(const Node& node, const Scope& scope, const Diagnostic& diagnostic) {
  Finding finding{diagnostic, node.op_type, node.domain, 0, {}, {}};
  if (auto import = opsets().find(node.domain); import != opsets().end()) finding.opset = import->second;
  std::vector<Var*> inputs;
  for (const std::string& name : node.inputs) {
    Var* var = nullptr;
    if (!name.empty()) look_up(scope, name, var);
    inputs.push_back(var);
    finding.inputs.push_back(var ? concat(name_of(var->dtype()), to_string(var->shape())) : std::string());
  }
  finding.advice = advice_for(inputs, find_operator(node.domain, node.op_type));
  latest_ = finding;
}

std::vector<Finding> ModelLowering::find_problems() {
  finding_ = true;
  try {
    lower();
  } catch (const CompileError& e) {  // inputs that contradict the options, an output that is missing
    if (findings_.empty())
      findings_.push_back({e.diagnostic, "", "", 0, {}, "give shapes and dims that the model's inputs allow"});
  }
  return findings_;
}

std::vector<Finding> find_problems(const Model& model, const LowerOptions& options) {
  std::vector<Finding> found = check_model(model);
  if (!found.empty()) return found;
  std::optional<std::vector<Finding>> first;
  for (BranchChoices choices; choices.more; choices.take_others()) {
    const ExprScope scope;
    Graph graph;
    ModelLowering lowering(model, options, graph, choices.taken);
    found = lowering.find_problems();
    if (found.empty()) return found;
    if (!first) first = std::move(found);
    choices.taken = lowering.choices();
  }
  return *first;
}

}  // namespace metac
