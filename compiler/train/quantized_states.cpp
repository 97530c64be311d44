#include "compiler/train/quantized_states.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

bool is_fake_quantize(const Node& node) { return node.domain == "metac" && node.op_type == "fake_quantize"; }

}  // namespace

std::set<std::string> fake_quantize_scales(const ModelGraph& graph) {
  std::set<std::string> scales;
  for (const Node& node : graph.nodes)
    if (is_fake_quantize(node)) scales.insert(node.inputs.at(1));
  return scales;
}

void learn_scales(Model& step, int64_t batch, const TypesOf& types_of) {
  std::map<std::string, const Tensor*> constants;
  for (const Initializer& each : step.graph.initializers) constants[each.name] = &each.tensor;
  std::vector<std::string> values;
  for (const Node& node : step.graph.nodes)
    if (is_fake_quantize(node) && !constants.count(node.inputs[0])) values.push_back(node.inputs[0]);
  const std::vector<TypedShape> types = types_of(values);
  size_t seen = 0;
  for (Node& node : step.graph.nodes) {
    if (!is_fake_quantize(node)) continue;
    const auto weight = constants.find(node.inputs[0]);
    double count = 1;
    if (weight != constants.end())
      count = static_cast<double>(weight->second->element_count());
    else
      for (int64_t dim : types[seen++].shape) count *= static_cast<double>(dim);
    if (weight == constants.end()) count /= static_cast<double>(batch);
    const auto scale = constants.find(node.inputs[1]),
               zero_point = constants.find(node.inputs.size() > 2 ? node.inputs[2] : "");
    if (scale != constants.end()) count /= static_cast<double>(std::max<int64_t>(1, scale->second->element_count()));
    double most = static_cast<double>(node.attributes.at("high").integer);
    if (zero_point != constants.end() && zero_point->second->element_count() == 1) most -= number_at(*zero_point->second, 0);
    node.attributes["scale_gradient"] = real_attribute(1 / std::sqrt(std::max(1.0, count) * std::max(1.0, most)));
  }
}

std::string write_following_scale(NodeWriter& write, const QuantizedNetwork::Weight& weight, int rank,
                                  const std::string& value, const BiasOfScale& bias) {
  const std::string magnitude = write.elementwise({value}, "abs(@0)", weight.scale + "/magnitude"),
                    overall = write.reduce("max", magnitude, {}, false, weight.scale + "/overall"),
                    largest = literal(static_cast<double>(weight.largest));
  std::string most = overall;
  std::vector<int64_t> others;
  for (int64_t k = 0; weight.axis >= 0 && k < rank; ++k)
    if (k != weight.axis) others.push_back(k);
  if (weight.axis >= 0) {
    most = others.empty() ? magnitude : write.reduce("max", magnitude, others, false, weight.scale + "/largest");
    // A channel of zeros has the others' step, for the sake of its bias.
    most = write.elementwise({most, overall}, "@0 > 0 ? @0 : @1", weight.scale + "/largest");
  }
  const std::string scale = write.elementwise({most}, "max(@0/" + largest + ", 1e-30)", weight.scale + "/next");
  if (bias.bias.empty()) return scale;
  // Beyond that the bias would not fit int32.
  std::string least = write.elementwise({bias.bias, bias.factor}, "abs(@0)/@1/2e9", weight.scale + "/least");
  if (weight.axis < 0) least = write.reduce("max", least, {}, false, weight.scale + "/least");
  return write.elementwise({scale, least}, "max(@0, @1)", weight.scale + "/next");
}

std::string write_weight_integers(NodeWriter& write, const QuantizedNetwork::Weight& weight, int64_t slices,
                                  const std::string& value, const std::string& scale) {
  const std::vector<int64_t> shape = slices > 0 ? std::vector<int64_t>{slices} : std::vector<int64_t>{};
  const std::string zero_point = write.constant(filled_tensor(DType::i8, shape, 0), weight.integers + "/zero_point"),
                    rounded = write.fresh(weight.integers + "/rounded"), most = std::to_string(weight.largest);
  Node& node = write.add("", "QuantizeLinear", {value, scale, zero_point}, {rounded});
  if (weight.axis >= 0) node.attributes["axis"] = integer_attribute(weight.axis);
  return write.elementwise({rounded}, "min(max(@0, -" + most + "), " + most + ")", weight.integers + "/next");
}

std::string write_bias_scale(NodeWriter& write, const QuantizedNetwork::Bias& bias, const std::string& factor,
                             const std::string& weight_scale) {
  return write.elementwise({factor, weight_scale}, "@0*@1", bias.scale + "/next");
}

std::string write_bias_integers(NodeWriter& write, const QuantizedNetwork::Bias& bias, const std::string& value,
                                const std::string& scale) {
  // float32's largest number below 2^31.
  const std::string rounded =
      write.elementwise({value, scale}, "min(max(rint(@0/@1), -2147483648.0), 2147483520.0)", bias.integers + "/rounded");
  return write.cast(rounded, DType::i32, bias.integers + "/next");
}

}  // namespace metac
