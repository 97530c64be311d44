#include "compiler/train/forms/straight_through.h"

#include <map>
#include <optional>

#include "compiler/ops/attributes.h"
#include "compiler/train/node_writer.h"

namespace metac {
namespace {

// The domain is ONNX's own or Microsoft's.
bool is(const Node& node, const char* op) {
  return node.op_type == op && (node.domain.empty() || node.domain == "com.microsoft") && node.inputs.size() >= 2;
}

std::string zero_point_of(const Node& node) { return node.inputs.size() > 2 ? node.inputs[2] : ""; }

class Pairs {
 public:
  explicit Pairs(Model& model) : graph_(model.graph), model_(model) {
    for (const Initializer& each : graph_.initializers) constants_[each.name] = &each.tensor;
    for (const Node& node : graph_.nodes)
      if (is(node, "QuantizeLinear")) quantised_[node.outputs.at(0)] = &node;
  }

  int replace() {
    std::vector<Node> nodes;
    int count = 0;
    for (const Node& node : graph_.nodes) {
      std::optional<Node> one = fake_quantize(node);
      count += one.has_value();
      nodes.push_back(one ? std::move(*one) : node);
    }
    graph_.nodes = std::move(nodes);
    if (count > 0) model_.opset_imports.emplace("metac", 1);
    return count;
  }

 private:
  std::optional<Node> fake_quantize(const Node& dequantize) const {
    if (!is(dequantize, "DequantizeLinear")) return {};
    const auto found = quantised_.find(dequantize.inputs[0]);
    if (found == quantised_.end()) return {};
    const Node& quantize = *found->second;
    const std::string zero_point = zero_point_of(quantize);
    if (quantize.inputs[1] != dequantize.inputs[1] || zero_point != zero_point_of(dequantize)) return {};
    for (const char* name : {"axis", "block_size"})
      if (integer_or(quantize, name, name[0] == 'a') != integer_or(dequantize, name, name[0] == 'a')) return {};
    if (integer_or(quantize, "precision", 0) != 0 || integer_or(dequantize, "output_dtype", 0) != 0) return {};
    const Tensor* scale = constant(quantize.inputs[1]);
    if (!scale || (scale->dtype != DType::f32 && scale->dtype != DType::f64)) return {};
    DType integers = DType::u8;
    if (!zero_point.empty()) {
      const Tensor* offset = constant(zero_point);
      if (!offset || !is_integer(offset->dtype)) return {};
      integers = offset->dtype;
    } else if (integer_or(quantize, "output_dtype", 0) != 0) {
      return {};
    }
    Node node;
    node.domain = "metac";
    node.op_type = "fake_quantize";
    node.name = dequantize.name;
    node.inputs = quantize.inputs;
    node.outputs = dequantize.outputs;
    node.attributes["low"] = integer_attribute(min_value(integers));
    node.attributes["high"] = integer_attribute(static_cast<int64_t>(max_value(integers)));
    for (const char* name : {"axis", "block_size"})
      if (const auto attribute = quantize.attributes.find(name); attribute != quantize.attributes.end())
        node.attributes[name] = attribute->second;
    return node;
  }

  const Tensor* constant(const std::string& name) const {
    const auto found = constants_.find(name);
    return found == constants_.end() ? nullptr : found->second;
  }

  ModelGraph& graph_;
  Model& model_;
  std::map<std::string, const Tensor*> constants_;
  std::map<std::string, const Node*> quantised_;
};

}  // namespace

int pairs_to_fake_quantize(Model& model) { return Pairs(model).replace(); }

}  // namespace metac
