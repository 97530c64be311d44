#include "compiler/quantize/half_model.h"

#include <algorithm>
#include <cmath>

#include "compiler/ir/element.h"
#include "compiler/ops/model_lowering.h"
#include "compiler/support/diagnostic.h"
#include "frontends/onnx/onnx.h"

namespace metac {
namespace {

// Whose definition in ONNX has no half types, or which make values of a dtype that an attribute names.
const std::set<std::string> float_alone = {"NonMaxSuppression",
                                           "Range",
                                           "Multinomial",
                                           "RandomNormal",
                                           "RandomNormalLike",
                                           "RandomUniform",
                                           "RandomUniformLike",
                                           "EyeLike",
                                           "Bernoulli",
                                           "DFT",
                                           "STFT",
                                           "MelWeightMatrix",
                                           "HannWindow",
                                           "HammingWindow",
                                           "BlackmanWindow",
                                           "DynamicQuantizeLinear",
                                           "TfIdfVectorizer",
                                           "SequenceConstruct",
                                           "SequenceEmpty",
                                           "SequenceInsert",
                                           "SequenceAt",
                                           "SequenceErase",
                                           "SplitToSequence",
                                           "ConcatFromSequence",
                                           "Optional",
                                           "OptionalGetElement",
                                           "CTCLoss",
                                           "Gradient"};

class HalfWriter {
 public:
  HalfWriter(const Model& model, const std::map<std::string, KnownType>& types, DType half, const NodePatterns& keep)
      : before_(model), types_(types), half_(half), keep_(keep), uses_(before_.graph), fresh_(before_) {
    for (const Value& input : before_.graph.inputs) floats_.insert(input.name);
    for (const Initializer& each : before_.graph.initializers) floats_.insert(each.name);
  }

  HalfModel write() {
    result_.model = before_;
    result_.model.graph.nodes.clear();
    for (const Node& node : before_.graph.nodes) write_node(node);
    remove_unread(result_.model.graph, before_.graph);
    return std::move(result_);
  }

 private:
  bool is_float(const std::string& name) const {
    const auto found = types_.find(name);
    return found != types_.end() && found->second.dtype == DType::f32;
  }

  bool stays_float(const Node& node) const {
    if (keep_.match(node.name, node.op_type) || (node.domain != "" && node.domain != "com.microsoft") ||
        float_alone.count(node.op_type))
      return true;
    bool bodies = false;
    for_each_subgraph(node, [&](const ModelGraph&) { bodies = true; });
    return bodies;
  }
  // Operands that are float32 whatever the others are.
  static bool is_always_float(const Node& node, size_t operand) {
    return (node.op_type == "Resize" && operand == 2) || (node.op_type == "Upsample" && operand == 1);
  }

  void cast(const std::string& from, const std::string& to, DType dtype) {
    Node node;
    node.op_type = "Cast";
    node.name = fresh_(to + "_Cast");
    node.inputs = {from};
    node.outputs = {to};
    node.attributes["to"].integer = onnx_number_of(dtype);
    result_.model.graph.nodes.push_back(std::move(node));
  }

  Tensor rounded(const Tensor& tensor) {
    std::byte* data = nullptr;
    Tensor result = make_tensor(half_, tensor.shape, &data);
    const float* from = tensor.data<float>();
    const float most = half_ == DType::f16 ? 65504.0f : 3.3895314e38f;
    with_element(half_, [&](auto zero) {
      using T = decltype(zero);
      for (int64_t i = 0, count = tensor.element_count(); i < count; ++i) {
        float value = from[i];
        if (std::isfinite(value) && std::abs(value) > most) value = std::copysign(most, value), ++result_.clipped;
        reinterpret_cast<T*>(data)[i] = to_element<T>(value);
      }
    });
    return result;
  }

  const std::string& as_half(const std::string& name) {
    auto [found, is_new] = result_.halves.try_emplace(name);
    if (!is_new) return found->second;
    found->second = fresh_(name + suffix());
    if (const Tensor* tensor = uses_.constant(name))
      result_.model.graph.initializers.push_back({found->second, rounded(*tensor)});
    else
      cast(name, found->second, half_);
    return found->second;
  }
  const std::string& as_float(const std::string& name) {
    if (floats_.insert(name).second) cast(result_.halves.at(name), name, DType::f32);
    return name;
  }
  std::string suffix() const { return half_ == DType::f16 ? "_float16" : "_bfloat16"; }

  void write_node(Node node) {
    bool touches = false;
    for (const auto* names : {&node.inputs, &node.outputs})
      for (const std::string& name : *names) touches |= is_float(name);
    const bool in_half = touches && !stays_float(node);
    if (touches) ++(in_half ? result_.converted : result_.kept);
    for (size_t k = 0; k < node.inputs.size(); ++k)
      if (std::string& input = node.inputs[k]; is_float(input))
        input = in_half && !is_always_float(node, k) ? as_half(input) : as_float(input);
    std::vector<std::string> made;
    for (std::string& output : node.outputs) {
      if (!is_float(output)) continue;
      made.push_back(output);
      if (in_half)
        output = result_.halves[output] = fresh_(output + suffix());
      else
        floats_.insert(output);
    }
    if (in_half) retype(node, !made.empty());
    result_.model.graph.nodes.push_back(std::move(node));
    for (const std::string& output : made)
      if (!uses_.stays_inside(output)) as_float(output);
  }

  // Attributes that say which dtype comes out.
  void retype(Node& node, bool makes_float) {
    if (!makes_float || !node.domain.empty()) return;
    const auto attribute = [&](const char* name) {
      const auto found = node.attributes.find(name);
      return found == node.attributes.end() ? nullptr : &found->second;
    };
    if (node.op_type == "Cast" && attribute("to")) attribute("to")->integer = onnx_number_of(half_);
    if (node.op_type == "DequantizeLinear" || node.op_type == "BlackmanWindow") return;
    if (node.op_type == "ConstantOfShape") {
      Attribute& value = node.attributes["value"];
      value.kind = Attribute::Kind::tensor;
      if (value.tensors.empty()) value.tensors.push_back(filled_tensor(DType::f32, {1}, 0));
      value.tensors[0] = rounded(value.tensors[0]);
    }
    if (node.op_type == "Constant") {  // one of the short forms
      Attribute value;
      value.kind = Attribute::Kind::tensor;
      if (const Attribute* one = attribute("value_float"))
        value.tensors.push_back(rounded(filled_tensor(DType::f32, {}, one->real)));
      else if (const Attribute* list = attribute("value_floats"))
        value.tensors.push_back(rounded(make_tensor<float>(DType::f32, {static_cast<int64_t>(list->reals.size())},
                                                           {list->reals.begin(), list->reals.end()})));
      if (!value.tensors.empty()) node.attributes = {{"value", value}};
    }
  }

  const Model before_;
  const std::map<std::string, KnownType>& types_;
  const DType half_;
  const NodePatterns& keep_;
  const GraphUses uses_;
  FreshNames fresh_;
  std::set<std::string> floats_;  // values that are there as float32, under their own name
  HalfModel result_;
};

}  // namespace

HalfModel half_model(const Model& model, const std::map<std::string, KnownType>& types, DType half,
                     const NodePatterns& keep) {
  return HalfWriter(model, types, half, keep).write();
}

}  // namespace metac
