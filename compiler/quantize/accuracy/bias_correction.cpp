#include "compiler/quantize/accuracy/bias_correction.h"

namespace metac {
namespace {

// Rounded to int8 and back.
Tensor rounded(const Tensor& weights, int axis, int most) {
  const SymmetricWeights small = symmetric_weights(weights, axis, most, {});
  int64_t inner = 1;
  for (size_t k = static_cast<size_t>(axis) + 1; axis >= 0 && k < weights.shape.size(); ++k) inner *= weights.shape[k];
  const int64_t slices = small.scales.element_count();
  std::vector<float> values(static_cast<size_t>(weights.element_count()));
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t slice = axis < 0 ? 0 : static_cast<int64_t>(i) / inner % slices;
    values[i] = static_cast<float>(small.integers.data<int8_t>()[i]) * small.scales.data<float>()[slice];
  }
  return make_tensor<float>(DType::f32, weights.shape, values);
}

struct Probe {
  int node;
  std::string exact, rounded;
  int axis;  // of the channels, from the front (Conv) or -1: the last
};

void add_difference(const Tensor& a, const Tensor& b, int axis, std::vector<double>& sums, double& count) {
  const size_t at = axis < 0 ? a.shape.size() - 1 : static_cast<size_t>(axis);
  int64_t inner = 1;
  for (size_t k = at + 1; k < a.shape.size(); ++k) inner *= a.shape[k];
  const int64_t channels = a.shape[at], total = a.element_count();
  sums.resize(static_cast<size_t>(channels));
  const float *x = a.data<float>(), *y = b.data<float>();
  for (int64_t i = 0; i < total; ++i) sums[static_cast<size_t>(i / inner % channels)] += static_cast<double>(x[i]) - y[i];
  count += static_cast<double>(total / std::max<int64_t>(1, channels));
}

}  // namespace

std::map<int, std::vector<double>> bias_shifts(const Model& model, const QuantizationPlan& plan, const QdqOptions& qdq,
                                               const CalibrationData& data, const SessionOptions& options) {
  Model probing = model;
  FreshNames fresh(model);
  const GraphUses uses(model.graph);
  std::vector<Probe> probes;
  std::vector<std::string> watched;
  for (const PlannedWeight& weight : plan.weights) {
    const Node& node = model.graph.nodes[static_cast<size_t>(weight.node)];
    const bool product = node.op_type == "MatMul";
    if (weight.operand != 1 || (product && weight.addition < 0)) continue;  // without a bias
    if (node.inputs.size() > 2 && !node.inputs[2].empty() && weight.bias_operand < 0) continue;
    Node copy = node;
    copy.name.clear();
    std::string& operand = copy.inputs[1];
    const Tensor small =
        at_node(model, weight.node, [&] { return rounded(*uses.constant(operand), weight.axis, qdq.most_weight); });
    operand = fresh(operand + "_rounded");
    probing.graph.initializers.push_back({operand, small});
    copy.outputs = {fresh(node.outputs[0] + "_rounded")};
    probes.push_back({weight.node, node.outputs[0], copy.outputs[0], product || node.op_type == "Gemm" ? -1 : 1});
    watched.insert(watched.end(), {probes.back().exact, probes.back().rounded});
    probing.graph.nodes.push_back(std::move(copy));
  }
  std::map<int, std::vector<double>> sums;
  std::map<int, double> counts;
  if (probes.empty()) return sums;
  ObservedModel observed(std::move(probing), watched, options);
  data.for_each([&](const NamedTensors& inputs) {
    const NamedTensors found = observed.run(inputs);
    for (const Probe& probe : probes)
      add_difference(found.at(probe.exact), found.at(probe.rounded), probe.axis, sums[probe.node], counts[probe.node]);
  });
  for (auto& [node, shifts] : sums)
    for (double& shift : shifts) shift /= std::max(1.0, counts[node]);
  return sums;
}

}  // namespace metac
