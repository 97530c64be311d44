#include "compiler/train/forms/inference_form.h"

#include <algorithm>
#include <memory>
#include <set>
#include <unordered_map>

#include "compiler/train/node_writer.h"
#include "compiler/train/parameters.h"

namespace metac {
namespace {

constexpr const char* mark = "metac.exported";
constexpr int deepest = 100;

// What a node's names mean: values of the graph that it stands in, or of one around that.
class Scope {
 public:
  Scope(const std::vector<Initializer>* initializers, const std::vector<Node>& nodes, const Scope* around)
      : around_(around) {
    if (initializers)
      for (const Initializer& i : *initializers) constants_[i.name] = &i.tensor;
    for (const Node& node : nodes)
      for (const std::string& output : node.outputs)
        if (!output.empty()) producers_[output] = &node;
  }

  std::optional<double> number(const std::string& name, int depth = 0) const {
    if (depth > deepest) return std::nullopt;
    if (auto found = constants_.find(name); found != constants_.end()) return number(*found->second);
    auto found = producers_.find(name);
    if (found == producers_.end()) return around_ ? around_->number(name, depth + 1) : std::nullopt;
    const Node& node = *found->second;
    if ((is_operator(node, "Identity") || is_operator(node, "Cast")) && !node.inputs.empty())
      return number(node.inputs[0], depth + 1);
    if (!is_operator(node, "Constant")) return std::nullopt;
    for (const auto& [key, value] : node.attributes) {
      if (key == "value" && !value.tensors.empty()) return number(value.tensors[0]);
      if (key == "value_float") return value.real;
      if (key == "value_int") return static_cast<double>(value.integer);
    }
    return std::nullopt;
  }

  // Is it an initialiser or a Constant, or one of these under another name?
  bool is_given(const std::string& name, int depth = 0) const {
    if (depth > deepest) return false;
    if (constants_.count(name)) return true;
    auto found = producers_.find(name);
    if (found == producers_.end())
      return !around_ || around_->is_given(name, depth + 1);  // an input: no statistic of this batch either
    if (is_operator(*found->second, "Identity") && !found->second->inputs.empty())
      return is_given(found->second->inputs[0], depth + 1);
    return is_operator(*found->second, "Constant");
  }

 private:
  static std::optional<double> number(const Tensor& tensor) {
    return tensor.element_count() == 1 ? std::optional<double>(number_at(tensor, 0)) : std::nullopt;
  }

  const Scope* around_;
  std::unordered_map<std::string, const Tensor*> constants_;
  std::unordered_map<std::string, const Node*> producers_;
};

class InferenceRewriter {
 public:
  explicit InferenceRewriter(Model model) { form_.model = std::move(model); }

  InferenceForm run() {
    const auto opset = [](const std::map<std::string, int64_t>& imports) {
      auto found = imports.find("");
      return found == imports.end() ? int64_t{1} : found->second;
    };
    visit(form_.model.graph, opset(form_.model.opset_imports), nullptr, 0);
    for (ModelFunction& function : form_.model.functions) {
      const Scope scope(nullptr, function.nodes, nullptr);
      std::set<std::string> read(function.outputs.begin(), function.outputs.end());
      visit(function.nodes, read, opset(function.opset_imports), scope, 0);
    }
    return std::move(form_);
  }

 private:
  void visit(ModelGraph& graph, int64_t opset, const Scope* around, int depth) {
    const std::vector<Node> before = graph.nodes;  // what names mean does not change while nodes do
    const Scope scope(&graph.initializers, before, around);
    std::set<std::string> read;
    for (const Value& output : graph.outputs) read.insert(output.name);
    visit(graph.nodes, read, opset, scope, depth);
  }

  void visit(std::vector<Node>& nodes, std::set<std::string>& read, int64_t opset, const Scope& scope, int depth) {
    for (const Node& node : nodes) names_read(node, read);
    for (size_t i = 0; i < nodes.size(); ++i) {
      Node& node = nodes[i];
      if (is_operator(node, "BatchNormalization")) normalise(node, describe(node, static_cast<int>(i)), read, opset, scope);
      if (is_operator(node, "Dropout")) drop(node, describe(node, static_cast<int>(i)), opset, read, scope);
      if (depth == deepest) continue;
      for (auto& [name, attribute] : node.attributes)
        for (std::shared_ptr<ModelGraph>& body : attribute.graphs)
          if (body) {
            body = std::make_shared<ModelGraph>(*body);
            visit(*body, opset, &scope, depth + 1);
          }
    }
  }

  void normalise(Node& node, const std::string& where, const std::set<std::string>& read, int64_t opset,
                 const Scope& scope) {
    auto flag = [&](const char* name) {
      auto found = node.attributes.find(name);
      return found != node.attributes.end() && found->second.integer != 0;
    };
    const bool trains = opset >= 14 ? flag("training_mode") : node.outputs.size() > 1 && !flag("is_test");
    if (!trains || node.inputs.size() < 5 || !scope.is_given(node.inputs[3]) || !scope.is_given(node.inputs[4])) return;
    form_.normalised.push_back(where);
    for (size_t k = 1; k < node.outputs.size(); ++k)
      if (!node.outputs[k].empty() && read.count(node.outputs[k])) {
        if (!form_.impossible)
          form_.impossible =
              Diagnostic{form_.model.path, where,
                         concat("is in training form, and its output ", quoted(node.outputs[k]),
                                " is read: by its running statistics it has no such output. Export the model without")};
        return;
      }
    node.outputs.resize(1);
    if (opset >= 14) node.attributes.erase("training_mode");
    node.metadata[mark] = "training";
  }

  void drop(Node& node, const std::string& where, int64_t opset, const std::set<std::string>& read, const Scope& scope) {
    if (node.outputs.size() > 1 && !read.count(node.outputs[1])) node.outputs.resize(1);
    if (opset < 12 || node.inputs.size() < 3 || node.inputs[2].empty()) return;
    const std::optional<double> training = scope.number(node.inputs[2]);
    if (!training) return;  // known at run time: the caller's business
    node.inputs.resize(node.inputs[1].empty() ? 1 : 2);
    if (*training == 0) return;
    form_.dropped.push_back(where);
    node.metadata[mark] = "training";
  }

  InferenceForm form_;
};

}  // namespace

InferenceForm inference_form(Model model) { return InferenceRewriter(std::move(model)).run(); }

bool was_exported_for_training(const Node& node) {
  if (node.metadata.count(mark)) return true;
  auto call = node.metadata.find("pkg.torch.onnx.fx_node");
  return is_operator(node, "BatchNormalization") && call != node.metadata.end() &&
         call->second.find("_native_batch_norm_legit_functional") != std::string::npos;
}

std::optional<double> known_number(const ModelGraph& graph, const std::string& name) {
  return Scope(&graph.initializers, graph.nodes, nullptr).number(name);
}

}  // namespace metac
