#include "compiler/train/training_form.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "compiler/support/diagnostic.h"
#include "compiler/train/node_writer.h"

namespace metac {
namespace {

int initializer_named(const ModelGraph& graph, const std::string& name) {
  for (size_t i = 0; i < graph.initializers.size(); ++i)
    if (graph.initializers[i].name == name) return static_cast<int>(i);
  return -1;
}

// The ratio of a Dropout node: an attribute (up to opset 11) or a constant operand.
std::optional<double> ratio_of(const ModelGraph& graph, const Node& node) {
  if (auto found = node.attributes.find("ratio"); found != node.attributes.end()) return found->second.real;
  if (node.inputs.size() < 2 || node.inputs[1].empty()) return 0.5;
  const Tensor* tensor = nullptr;
  if (int k = initializer_named(graph, node.inputs[1]); k >= 0) tensor = &graph.initializers[k].tensor;
  for (const Node& other : graph.nodes)
    if (other.op_type == "Constant" && other.domain.empty() && !other.outputs.empty() && other.outputs[0] == node.inputs[1])
      if (auto value = other.attributes.find("value"); value != other.attributes.end() && !value->second.tensors.empty()) tensor = &value->second.tensors[0];
  if (!tensor || tensor->element_count() != 1) return std::nullopt;
  return number_at(*tensor, 0);
}

class Rewriter {
 public:
  Rewriter(Model& model, const Recipe& recipe, const std::string& seed, const std::string& call) : model_(model), recipe_(recipe), seed_(seed), call_(call), write_(model) {}

  TrainingForm run(const std::function<std::vector<TypedShape>(const std::vector<std::string>&)>& types_of) {
    std::vector<std::string> normalised;
    for (const Node& node : model_.graph.nodes)
      if (is(node, "BatchNormalization")) normalised.push_back(node.inputs.at(0));
    std::vector<TypedShape> types;
    if (recipe_.batch_statistics && !normalised.empty()) types = types_of(normalised);
    std::vector<Node> nodes;
    nodes.swap(model_.graph.nodes);
    size_t seen = 0;
    for (Node& node : nodes) {
      if (is(node, "BatchNormalization") && recipe_.batch_statistics) {
        normalise(node, types[seen++]);
      } else if (is(node, "Dropout")) {
        drop(node);
      } else {
        if (is(node, "Conv") && node.inputs.size() > 2) ++biased_convolutions_;
        model_.graph.nodes.push_back(std::move(node));
      }
    }
    report(normalised.size());
    return std::move(form_);
  }

 private:
  static bool is(const Node& node, const char* op) { return node.domain.empty() && node.op_type == op; }

  void normalise(Node& node, const TypedShape& x) {
    const int mean = node.inputs.size() > 4 ? initializer_named(model_.graph, node.inputs[3]) : -1;
    const int variance = node.inputs.size() > 4 ? initializer_named(model_.graph, node.inputs[4]) : -1;
    int64_t count = 1;
    for (size_t k = 0; k < x.shape.size(); ++k)
      if (k != 1) count *= x.shape[k];
    if (mean < 0 || variance < 0 || mean == variance || node.outputs.size() > 1 || count < 2) {
      ++kept_;
      model_.graph.nodes.push_back(std::move(node));
      return;
    }
    if (recipe_.batch_momentum) {
      Attribute momentum;
      momentum.kind = Attribute::Kind::real;
      momentum.real = *recipe_.batch_momentum;
      node.attributes["momentum"] = momentum;
    }
    auto opset = model_.opset_imports.find("");
    const bool has_mode = opset != model_.opset_imports.end() && opset->second >= 14;
    if (has_mode) node.attributes["training_mode"] = integer_attribute(1);
    node.attributes.erase("is_test");
    const std::string mean_name = node.inputs[3], variance_name = node.inputs[4];
    // Where several nodes share statistics (a network that a step calls twice) each goes on from the one before.
    for (const size_t k : {3, 4})
      if (auto found = latest_.find(node.inputs[k]); found != latest_.end()) node.inputs[k] = found->second;
    const std::string old = node.inputs[4];
    std::string next_mean = write_.fresh(mean_name + "/next"), next_variance = write_.fresh(variance_name + "/next");
    node.outputs = {node.outputs[0], next_mean, next_variance};
    auto momentum = node.attributes.find("momentum");
    const double kept = momentum == node.attributes.end() ? 0.9 : momentum->second.real;
    if (!std::isfinite(kept)) fail("BatchNormalization ", quoted(node.name.empty() ? node.outputs[0] : node.name), " has a momentum of ", kept);
    model_.graph.nodes.push_back(std::move(node));
    if (recipe_.unbiased_variance) {
      // ONNX averages the variance of the batch over n, PyTorch over n - 1.
      const double ratio = static_cast<double>(count) / static_cast<double>(count - 1);
      next_variance = write_.elementwise({next_variance, old}, literal(ratio) + "*@0 + " + literal(kept * (1 - ratio)) + "*@1", variance_name + "/next");
    }
    for (const auto& [name, initializer, next] : {std::tuple{mean_name, mean, next_mean}, std::tuple{variance_name, variance, next_variance}}) {
      latest_[name] = next;
      auto known = std::find_if(form_.statistics.begin(), form_.statistics.end(), [&, i = initializer](const RunningStatistic& s) { return s.initializer == i; });
      if (known == form_.statistics.end()) form_.statistics.push_back({initializer, next});
      else known->next = next;
    }
    ++normalised_;
  }

  void drop(Node& node) {
    std::optional<double> ratio = recipe_.dropout ? recipe_.dropout : ratio_of(model_.graph, node);
    const bool masks = node.outputs.size() > 1 && !node.outputs[1].empty();
    if (!ratio || masks || !(*ratio >= 0 && *ratio < 1)) {
      form_.notes.push_back(concat("Dropout ", quoted(node.name.empty() ? node.outputs.at(0) : node.name), " stays off: ", masks ? "its mask is read" : "its ratio is not a constant in [0, 1)"));
      model_.graph.nodes.push_back(std::move(node));
      return;
    }
    if (*ratio == 0) {
      write_.rename(node.inputs.at(0), node.outputs.at(0));
      return;
    }
    form_.random = true;
    std::string uniform = write_.random(seed_, call_, node.inputs.at(0), ++dropped_, node.outputs.at(0) + "/random");
    Node& applied = write_.add("metac", "elementwise", {node.inputs[0], uniform}, {node.outputs[0]});
    applied.attributes["body"] = strings_attribute({"@1 < " + literal(*ratio) + " ? 0 : @0*" + literal(1 / (1 - *ratio))});
  }

  void report(size_t normalisations) {
    if (normalised_) form_.notes.push_back(concat(normalised_, " BatchNormalization nodes train by the statistics of the batch"));
    if (kept_) form_.notes.push_back(concat(kept_, " BatchNormalization nodes stay as in inference: their running statistics are no initialisers, or there is one value a channel"));
    if (dropped_) form_.notes.push_back(concat(dropped_, " Dropout nodes drop"));
    if (normalisations == 0 && biased_convolutions_ > 1)
      form_.notes.push_back(concat("there is no BatchNormalization, and ", biased_convolutions_,
                                   " convolutions have a bias: if it was folded into them, it cannot be put back (export the model in training mode, or train the biases as they are)"));
  }

  Model& model_;
  const Recipe& recipe_;
  const std::string &seed_, &call_;
  NodeWriter write_;
  TrainingForm form_;
  std::map<std::string, std::string> latest_;  // statistic -> what the node before made of it
  int normalised_ = 0, kept_ = 0, dropped_ = 0, biased_convolutions_ = 0;
};

}  // namespace

TrainingForm put_into_training_form(Model& model, const Recipe& recipe, const std::string& seed, const std::string& call,
                                    const std::function<std::vector<TypedShape>(const std::vector<std::string>&)>& types_of) {
  return Rewriter(model, recipe, seed, call).run(types_of);
}

}  // namespace metac
