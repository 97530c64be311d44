#include "compiler/ops/control/body_parameters.h"

#include <algorithm>
#include <set>

#include "compiler/ops/rename_values.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

constexpr int deepest = 100;

class Mover {
 public:
  explicit Mover(const Model& model) : model_(model) { note_names(model_.graph, 0); }

  Model run() {
    for (Node& node : model_.graph.nodes) visit(node, 0);
    return std::move(model_);
  }

 private:
  void note_names(const ModelGraph& graph, int depth) {
    for (const Value& v : graph.inputs) names_.insert(v.name);
    for (const Node& node : graph.nodes) {
      names_.insert(node.outputs.begin(), node.outputs.end());
      if (depth == deepest) continue;
      for (const auto& [name, attribute] : node.attributes)
        for (const auto& body : attribute.graphs)
          if (body) note_names(*body, depth + 1);
    }
    if (depth == 0)
      for (const Initializer& i : graph.initializers) names_.insert(i.name);
  }

  // Deeper than any model may nest nothing is moved: lowering refuses it.
  void visit(Node& node, int depth) {
    if (depth == deepest) return;
    for (auto& [name, attribute] : node.attributes)
      for (std::shared_ptr<ModelGraph>& body : attribute.graphs)
        if (body) {
          body = std::make_shared<ModelGraph>(*body);
          move_out(*body);
          for (Node& inner : body->nodes) visit(inner, depth + 1);
        }
  }

  void move_out(ModelGraph& body) {
    auto has = [](const std::vector<Value>& values, const std::string& name) {
      return std::any_of(values.begin(), values.end(), [&](const Value& v) { return v.name == name; });
    };
    std::vector<Initializer> kept;
    ValueNames renamed;
    for (Initializer& i : body.initializers) {
      if (!is_float(i.tensor.dtype) || has(body.inputs, i.name) || has(body.outputs, i.name)) {
        kept.push_back(std::move(i));
        continue;
      }
      std::string name = i.name;
      for (int k = 2; !names_.insert(name).second; ++k) name = concat(i.name, ".", k);
      if (name != i.name) renamed[i.name] = name;
      model_.graph.initializers.push_back({name, std::move(i.tensor)});
    }
    body.initializers = std::move(kept);
    if (!renamed.empty()) rename_values(body, std::move(renamed));
  }

  Model model_;
  std::set<std::string> names_;
};

}  // namespace

Model with_body_parameters(const Model& model) { return Mover(model).run(); }

}  // namespace metac
