#include "compiler/quantize/accuracy/smooth_activations.h"

#include <algorithm>
#include <cmath>

#include "compiler/ops/attributes.h"
#include "compiler/quantize/graph_uses.h"

namespace metac {
namespace {

struct Constant {  // an operand that takes factors in
  int node;
  size_t operand;
};

struct SmoothedValue {
  std::string name;
  int64_t channels = 0;
  std::vector<Constant> divided;     // of the producer: [channels]
  std::vector<Constant> multiplied;  // weights of the products that read the value
};

class Finder {
 public:
  Finder(const Model& model, const std::map<std::string, KnownType>& types, const NodePatterns& keep)
      : graph_(model.graph), uses_(model.graph), types_(types), keep_(keep) {}

  std::vector<SmoothedValue> find() const {
    std::vector<SmoothedValue> found;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      SmoothedValue value;
      if (makes(static_cast<int>(i), value) && is_read_by_products(value)) found.push_back(std::move(value));
    }
    return found;
  }

 private:
  const Node& node(int i) const { return graph_.nodes[static_cast<size_t>(i)]; }
  bool is_free(int i, const char* op) const {
    return node(i).domain.empty() && node(i).op_type == op && !keep_.match(node(i).name, node(i).op_type);
  }
  int rank_of(const std::string& name) const {
    const auto found = types_.find(name);
    return found == types_.end() || found->second.dtype != DType::f32 ? -1 : found->second.rank;
  }
  // A vector along the last axis of a value: how long, or 0.
  int64_t vector_length(const std::string& name) const {
    const Tensor* tensor = uses_.float_constant(name);
    return tensor && !tensor->shape.empty() && tensor->element_count() == tensor->shape.back() ? tensor->shape.back() : 0;
  }
  int producer_of(const std::string& name) const {
    const auto found = uses_.producer.find(name);
    return found == uses_.producer.end() ? -1 : found->second;
  }

  // Can node i divide its result by channel?
  bool makes(int i, SmoothedValue& value) const {
    const Node& n = node(i);
    if (n.outputs.empty()) return false;
    value.name = n.outputs[0];
    const int rank = rank_of(value.name);
    if (rank < 2) return false;
    if (is_free(i, "LayerNormalization") || is_free(i, "RMSNormalization") || is_free(i, "SimplifiedLayerNormalization")) {
      const int64_t axis = integer_or(n, "axis", -1);
      value.channels = vector_length(n.inputs.at(1));
      value.divided = {{i, 1}};
      const bool biased = n.inputs.size() > 2 && !n.inputs[2].empty();
      if (biased) value.divided.push_back({i, 2});
      return (axis == -1 || axis == rank - 1) && value.channels > 1 &&
             (!biased || vector_length(n.inputs[2]) == value.channels);
    }
    if (is_free(i, "Mul")) return scales(i, value);
    if (!is_free(i, "Add")) return false;
    for (size_t k = 0; k < 2; ++k) {
      const int64_t length = vector_length(n.inputs[k]);
      const int before = producer_of(n.inputs[1 - k]);
      if (length < 2 || before < 0 || !is_free(before, "Mul") || uses_.readers_of(n.inputs[1 - k]).size() != 1 ||
          !uses_.stays_inside(n.inputs[1 - k]) || !scales(before, value) || value.channels != length)
        continue;
      value.divided.push_back({i, k});
      return true;
    }
    return false;
  }

  // A product of a value with a vector along its last axis.
  bool scales(int i, SmoothedValue& value) const {
    for (size_t k = 0; k < 2; ++k) {
      const int64_t length = vector_length(node(i).inputs[k]);
      const std::string& other = node(i).inputs[1 - k];
      if (length < 2 || uses_.constant(other) || rank_of(other) != rank_of(node(i).outputs[0])) continue;
      value.channels = length;
      value.divided = {{i, k}};
      return true;
    }
    return false;
  }

  bool is_read_by_products(SmoothedValue& value) const {
    if (!uses_.stays_inside(value.name) || uses_.readers_of(value.name).empty()) return false;
    for (int i : uses_.readers_of(value.name)) {
      const Node& n = node(i);
      const bool gemm = is_free(i, "Gemm");
      if ((!gemm && !is_free(i, "MatMul")) || n.inputs.size() < 2 || n.inputs[0] != value.name ||
          n.inputs[1] == value.name || (n.inputs.size() > 2 && n.inputs[2] == value.name) || integer_or(n, "transA", 0) != 0)
        return false;
      const Tensor* weights = uses_.float_constant(n.inputs[1]);
      const size_t depth = gemm && integer_or(n, "transB", 0) != 0 ? 1 : 0;
      if (!weights || weights->shape.size() != 2 || weights->shape[depth] != value.channels) return false;
      value.multiplied.push_back({i, 1});
    }
    return true;
  }

  const ModelGraph& graph_;
  const GraphUses uses_;
  const std::map<std::string, KnownType>& types_;
  const NodePatterns& keep_;
};

bool channels_are_columns(const Node& node) { return node.op_type == "Gemm" && integer_or(node, "transB", 0) != 0; }

// The channel of element i of a matrix [K, N], or [N, K].
size_t channel_of(const Tensor& weights, bool columns, int64_t i) {
  return static_cast<size_t>(columns ? i % weights.shape[1] : i / weights.shape[1]);
}

}  // namespace

int smooth_activations(Model& model, const std::map<std::string, KnownType>& types, const NodePatterns& keep, double alpha,
                       const CalibrationData& data, const SessionOptions& options) {
  const std::vector<SmoothedValue> values = Finder(model, types, keep).find();
  if (values.empty()) return 0;
  std::map<std::string, std::vector<double>> largest;
  std::vector<std::string> names;
  for (const SmoothedValue& value : values) {
    names.push_back(value.name);
    largest[value.name].resize(static_cast<size_t>(value.channels));
  }
  ObservedModel observed(model, names, options);
  data.for_each([&](const NamedTensors& inputs) {
    const NamedTensors found = observed.run(inputs);
    for (auto& [name, most] : largest) {
      const Tensor& x = found.at(name);
      for (int64_t i = 0, count = x.element_count(); i < count; ++i) {
        double& here = most[static_cast<size_t>(i) % most.size()];
        here = std::max<double>(here, std::abs(x.data<float>()[i]));
      }
    }
  });

  const Model before = model;
  const GraphUses uses(before.graph);
  FreshNames fresh(before);
  const auto tensor_at = [&](const Constant& c) -> const Tensor& {
    return *uses.constant(before.graph.nodes[static_cast<size_t>(c.node)].inputs[c.operand]);
  };
  const auto replace = [&](const Constant& c, const std::vector<float>& numbers) {
    std::string& operand = model.graph.nodes[static_cast<size_t>(c.node)].inputs[c.operand];
    const std::vector<int64_t> shape = tensor_at(c).shape;
    operand = fresh(operand + "_smoothed");
    model.graph.initializers.push_back({operand, make_tensor<float>(DType::f32, shape, numbers)});
  };
  int products = 0;
  for (const SmoothedValue& value : values) {
    std::vector<double> of_weights(static_cast<size_t>(value.channels)), factors(of_weights.size(), 1);
    for (const Constant& c : value.multiplied) {
      const Tensor& w = tensor_at(c);
      const bool columns = channels_are_columns(before.graph.nodes[static_cast<size_t>(c.node)]);
      for (int64_t i = 0; i < w.element_count(); ++i) {
        double& here = of_weights[channel_of(w, columns, i)];
        here = std::max(here, std::abs(number_at(w, i)));
      }
    }
    const std::vector<double>& of_values = largest.at(value.name);
    for (size_t j = 0; j < factors.size(); ++j) {  // what is 0 everywhere has no size to change
      const double factor = std::pow(of_values[j], alpha) / std::pow(of_weights[j], 1 - alpha);
      if (of_values[j] > 0 && of_weights[j] > 0 && std::isfinite(factor)) factors[j] = std::clamp(factor, 1e-5, 1e5);
    }
    for (const Constant& c : value.divided) {
      std::vector<float> numbers;
      for (size_t j = 0; j < factors.size(); ++j)
        numbers.push_back(static_cast<float>(number_at(tensor_at(c), static_cast<int64_t>(j)) / factors[j]));
      replace(c, numbers);
    }
    for (const Constant& c : value.multiplied) {
      const Tensor& w = tensor_at(c);
      const bool columns = channels_are_columns(before.graph.nodes[static_cast<size_t>(c.node)]);
      std::vector<float> numbers;
      for (int64_t i = 0; i < w.element_count(); ++i)
        numbers.push_back(static_cast<float>(number_at(w, i) * factors[channel_of(w, columns, i)]));
      replace(c, numbers);
      ++products;
    }
  }
  remove_unread(model.graph, before.graph);
  return products;
}

}  // namespace metac
