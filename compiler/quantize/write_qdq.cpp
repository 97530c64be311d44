#include "compiler/quantize/write_qdq.h"

#include <algorithm>
#include <cmath>

#include "compiler/ops/attributes.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

class QdqWriter {
 public:
  QdqWriter(const Model& model, const QuantizationPlan& plan, const QdqData& data, const QdqOptions& options)
      : before_(model), plan_(plan), data_(data), options_(options), uses_(before_.graph), fresh_(before_) {
    for (const std::string& name : plan.values) result_.scales[name] = affine_of(data.ranges.at(name), options.activations);
  }

  QdqModel write() {
    result_.model = before_;
    if (options_.trained) result_.model.opset_imports.emplace("metac", 1);
    ModelGraph& graph = result_.model.graph;
    graph.nodes.clear();
    for (const Value& input : before_.graph.inputs) quantise(input.name);
    for (size_t i = 0; i < before_.graph.nodes.size(); ++i) write_node(static_cast<int>(i));
    remove_unread(graph, before_.graph);
    return std::move(result_);
  }

 private:
  struct ScaleNames {
    std::string scale, zero_point;
  };

  ModelGraph& graph() { return result_.model.graph; }
  bool is_planned(const std::string& value) const { return result_.scales.count(value) > 0; }
  // The value whose scale `value` is stored with.
  const std::string& root_of(const std::string& value) const {
    const auto moved = plan_.moved.find(value);
    return moved == plan_.moved.end() ? value : moved->second;
  }

  std::string constant(const std::string& wanted, Tensor tensor) {
    graph().initializers.push_back({fresh_(wanted), std::move(tensor)});
    return graph().initializers.back().name;
  }

  std::string add_fake_quantize(const std::string& x, const ScaleNames& names, const std::string& output, int64_t low,
                                int64_t high, int axis = -1) {
    add_node("fake_quantize", {x, names.scale, names.zero_point}, output, axis);
    Node& node = graph().nodes.back();
    node.domain = "metac";
    node.attributes["low"] = integer_attribute(low);
    node.attributes["high"] = integer_attribute(high);
    return output;
  }

  std::string add_node(const char* op, std::vector<std::string> inputs, const std::string& output, int axis = -1) {
    Node node;
    node.op_type = op;
    node.name = fresh_(output + "_" + op);
    node.inputs = std::move(inputs);
    node.outputs = {output};
    if (axis >= 0) node.attributes["axis"] = integer_attribute(axis);
    graph().nodes.push_back(std::move(node));
    return output;
  }

  const ScaleNames& scale_names(const std::string& root) {
    auto [found, is_new] = scale_names_.try_emplace(root);
    if (is_new) {
      const Affine& affine = result_.scales.at(root);
      found->second.scale = constant(root + "_scale", make_tensor<float>(DType::f32, {}, {affine.scale}));
      found->second.zero_point =
          constant(root + "_zero_point", filled_tensor(options_.activations, {}, static_cast<double>(affine.zero_point)));
    }
    return found->second;
  }

  void dequantise(const std::string& value, const std::string& integers) {
    const ScaleNames names = scale_names(root_of(value));
    integers_[value] = integers;
    result_.dequantized[value] =
        add_node("DequantizeLinear", {integers, names.scale, names.zero_point}, fresh_(value + "_dequantized"));
  }

  void quantise(const std::string& value) {
    if (!is_planned(value)) return;
    const ScaleNames names = scale_names(value);
    if (options_.trained) {
      result_.dequantized[value] =
          add_fake_quantize(value, names, fresh_(value + "_dequantized"), min_value(options_.activations),
                            static_cast<int64_t>(max_value(options_.activations)));
      return;
    }
    dequantise(value, add_node("QuantizeLinear", {value, names.scale, names.zero_point}, fresh_(value + "_quantized")));
  }

  void write_node(int i) {
    Node node = before_.graph.nodes[static_cast<size_t>(i)];
    if (plan_.movers.count(i) && !options_.trained) {
      if (node.op_type == "Dropout") node.op_type = "Identity", node.inputs.resize(1), node.attributes.clear();
      node.inputs[0] = integers_.at(node.inputs[0]);
      std::vector<std::pair<std::string, std::string>> made;
      for (std::string& output : node.outputs) {
        if (output.empty()) continue;
        made.emplace_back(output, fresh_(output + "_quantized"));
        output = made.back().second;
      }
      graph().nodes.push_back(std::move(node));
      for (const auto& [value, integers] : made) dequantise(value, integers);
      return;
    }
    for (const PlannedWeight& weight : plan_.weights)
      if (weight.node == i) at_node(before_, i, [&] { write_weight(weight, node); });
    if (!plan_.kept.count(i))
      for (std::string& input : node.inputs)
        if (const auto found = result_.dequantized.find(input); found != result_.dequantized.end()) input = found->second;
    for (const PlannedWeight& weight : plan_.weights)
      if (weight.addition == i) correct_addition(weight, node);
    const std::vector<std::string> outputs = node.outputs;
    graph().nodes.push_back(std::move(node));
    for (const std::string& output : outputs) quantise(output);
  }

  void write_weight(const PlannedWeight& weight, Node& node) {
    std::string& operand = node.inputs[static_cast<size_t>(weight.operand)];
    const std::string name = operand;
    const Tensor& tensor = *uses_.constant(name);
    std::vector<double> bias = bias_of(weight, node);
    const double factor = is_planned(root_of(weight.factor)) ? result_.scales.at(root_of(weight.factor)).scale : 0;
    const std::string key = name + "\n" + std::to_string(weight.axis);
    auto stored = stored_.find(key);
    if (stored == stored_.end()) stored = stored_.emplace(key, store(name, tensor, weight.axis, {})).first;
    // Where a bias is far larger than its channel's products, it would not fit into int32: those weights get larger steps.
    Stored own = stored->second;
    std::vector<double> least(static_cast<size_t>(own.scales.element_count()));
    bool fits = true;
    for (size_t k = 0; k < bias.size() && factor > 0; ++k) {
      double& step = least[weight.axis < 0 ? 0 : k];
      step = std::max(step, std::abs(bias[k]) / factor / 2e9);
      fits &= step <= number_at(own.scales, weight.axis < 0 ? 0 : static_cast<int64_t>(k));
    }
    if (!fits) own = store(name, tensor, weight.axis, least);
    operand = own.name;
    if (!bias.empty()) write_bias(weight, node, bias, factor, own);
  }

  struct Stored {
    std::string name;  // behind DequantizeLinear
    Tensor scales;
    std::string scale_name;
  };
  Stored store(const std::string& name, const Tensor& tensor, int axis, const std::vector<double>& least) {
    SymmetricWeights integers = symmetric_weights(tensor, axis, options_.most_weight, least);
    Stored made{"", integers.scales, ""};
    const std::string q = constant(name + "_quantized", std::move(integers.integers)),
                      s = constant(name + "_scale", std::move(integers.scales)),
                      z = constant(name + "_zero_point", std::move(integers.zero_points));
    made.name = fresh_(name + "_dequantized");
    if (options_.trained)
      add_fake_quantize(name, {s, z}, made.name, -options_.most_weight, options_.most_weight, axis);
    else
      add_node("DequantizeLinear", {q, s, z}, made.name, axis);
    made.scale_name = s;
    result_.weights.push_back({name, q, s, axis, options_.most_weight});
    return made;
  }

  // The bias with what corrects it; empty: there is none to be written.
  std::vector<double> bias_of(const PlannedWeight& weight, const Node& node) const {
    std::vector<double> bias;
    if (weight.bias_operand >= 0) {
      const Tensor& given = *uses_.constant(node.inputs[static_cast<size_t>(weight.bias_operand)]);
      for (int64_t k = 0; k < given.element_count(); ++k) bias.push_back(number_at(given, k));
    }
    const auto shift = data_.bias_shifts.find(weight.node);
    if (shift == data_.bias_shifts.end() || node.op_type == "MatMul") return bias;
    if (bias.empty() && node.inputs.size() == 2) bias.resize(shift->second.size());
    for (size_t k = 0; k < bias.size() && bias.size() == shift->second.size(); ++k) bias[k] += shift->second[k];
    return bias;
  }

  // The bias of a MatMul stands in the node behind it, and stays in float.
  void correct_addition(const PlannedWeight& weight, Node& node) {
    const auto shift = data_.bias_shifts.find(weight.node);
    if (shift == data_.bias_shifts.end()) return;
    for (std::string& input : node.inputs) {
      const Tensor* bias = uses_.float_constant(input);
      if (!bias || bias->element_count() != static_cast<int64_t>(shift->second.size())) continue;
      std::vector<float> corrected;
      for (size_t k = 0; k < shift->second.size(); ++k)
        corrected.push_back(static_cast<float>(number_at(*bias, static_cast<int64_t>(k)) + shift->second[k]));
      input = constant(input + "_corrected", make_tensor<float>(DType::f32, bias->shape, corrected));
      return;
    }
  }

  void write_bias(const PlannedWeight& weight, Node& node, const std::vector<double>& bias, double factor,
                  const Stored& weights) {
    const Tensor& scales = weights.scales;
    const std::string name =
        node.inputs.size() > 2 ? node.inputs[2] : node.inputs[static_cast<size_t>(weight.operand)] + "_bias";
    if (node.inputs.size() < 3) node.inputs.resize(3);
    const int64_t count = static_cast<int64_t>(bias.size());
    if (!(factor > 0)) {
      if (data_.bias_shifts.empty()) return;
      node.inputs[2] = constant(name + "_corrected", make_tensor<float>(DType::f32, {count}, {bias.begin(), bias.end()}));
      return;
    }
    std::vector<float> steps;
    std::vector<int32_t> integers;
    for (int64_t k = 0; k < count; ++k) {
      steps.push_back(static_cast<float>(factor * number_at(scales, weight.axis < 0 ? 0 : k)));
      integers.push_back(static_cast<int32_t>(
          std::clamp(std::nearbyint(bias[static_cast<size_t>(k)] / steps.back()), -2147483648.0, 2147483647.0)));
    }
    const bool one = weight.axis < 0;
    if (one) steps.resize(1);
    const std::string q = constant(name + "_quantized", make_tensor<int32_t>(DType::i32, {count}, integers)),
                      s = constant(
                          name + "_scale",
                          make_tensor<float>(DType::f32, one ? std::vector<int64_t>{} : std::vector<int64_t>{count}, steps));
    if (weight.bias_operand >= 0)
      result_.biases.push_back({name, q, s, scale_names(root_of(weight.factor)).scale, weights.scale_name});
    if (!options_.trained)
      node.inputs[2] = add_node("DequantizeLinear", {q, s}, fresh_(name + "_dequantized"), one ? -1 : 0);
  }

  const Model before_;
  const QuantizationPlan& plan_;
  const QdqData& data_;
  const QdqOptions options_;
  const GraphUses uses_;
  FreshNames fresh_;
  QdqModel result_;
  std::map<std::string, ScaleNames> scale_names_;
  std::map<std::string, std::string> integers_;
  std::map<std::string, Stored> stored_;
};

}  // namespace

SymmetricWeights symmetric_weights(const Tensor& weights, int axis, int most, const std::vector<double>& least_scales) {
  const int64_t slices = axis < 0 ? 1 : weights.shape[static_cast<size_t>(axis)], count = weights.element_count();
  int64_t inner = 1;
  for (size_t k = static_cast<size_t>(axis) + 1; axis >= 0 && k < weights.shape.size(); ++k) inner *= weights.shape[k];
  const auto slice_of = [&](int64_t i) { return axis < 0 ? size_t{0} : static_cast<size_t>(i / inner % slices); };
  const float* values = weights.data<float>();
  std::vector<double> largest(static_cast<size_t>(slices));
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(values[i])) fail("a weight is ", values[i], ": weights must be finite");
    largest[slice_of(i)] = std::max<double>(largest[slice_of(i)], std::abs(values[i]));
  }
  std::vector<float> scales;
  // A channel of zeros has the others' step, for the sake of its bias.
  const double overall = *std::max_element(largest.begin(), largest.end());
  for (size_t k = 0; k < largest.size(); ++k) {
    double scale = (largest[k] > 0 ? largest[k] : overall) / most;
    if (k < least_scales.size()) scale = std::max(scale, least_scales[k]);
    scales.push_back(static_cast<float>(scale > 1e-30 ? scale : 1));
  }
  std::vector<int8_t> integers;
  integers.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    integers.push_back(static_cast<int8_t>(std::clamp<float>(std::nearbyint(values[i] / scales[slice_of(i)]),
                                                             static_cast<float>(-most), static_cast<float>(most))));
  const std::vector<int64_t> shape = axis < 0 ? std::vector<int64_t>{} : std::vector<int64_t>{slices};
  return {make_tensor<int8_t>(DType::i8, weights.shape, integers), make_tensor<float>(DType::f32, shape, scales),
          filled_tensor(DType::i8, shape, 0)};
}

QdqModel write_qdq(const Model& model, const QuantizationPlan& plan, const QdqData& data, const QdqOptions& options) {
  return QdqWriter(model, plan, data, options).write();
}

}  // namespace metac
