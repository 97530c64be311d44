#include "compiler/quantize/block_weights.h"

#include <algorithm>
#include <cmath>

#include "compiler/ops/attributes.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

constexpr const char* microsoft = "com.microsoft";

// Rows of numbers of `bits` bits, each row from a byte of its own, from the low bits.
std::vector<uint8_t> pack(const std::vector<uint8_t>& numbers, int64_t rows, int64_t length, int64_t row_bytes, int bits,
                          uint8_t rest) {
  std::vector<uint8_t> bytes(static_cast<size_t>(rows * row_bytes));
  const int64_t each = 8 / bits;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < row_bytes * each; ++k) {
      const uint8_t number = k < length ? numbers[static_cast<size_t>(r * length + k)] : rest;
      bytes[static_cast<size_t>(r * row_bytes + k / each)] |= static_cast<uint8_t>(number << (k % each * bits));
    }
  return bytes;
}

}  // namespace

float BlockWeights::at(int64_t column, int64_t k) const {
  const auto of_block = static_cast<size_t>(column * blocks() + k / block);
  return static_cast<float>(static_cast<int>(integers[static_cast<size_t>(column * depth + k)]) -
                            static_cast<int>(zeros[of_block])) *
         scales[of_block];
}

Tensor BlockWeights::packed() const {
  const int64_t block_bytes = block * bits / 8;
  return make_tensor<uint8_t>(DType::u8, {columns, blocks(), block_bytes},
                              pack(integers, columns, depth, blocks() * block_bytes, bits, 0));
}

Tensor BlockWeights::packed_zeros() const {
  const int64_t bytes = (blocks() * bits + 7) / 8;
  return make_tensor<uint8_t>(DType::u8, {columns * bytes}, pack(zeros, columns, blocks(), bytes, bits, 0));
}

uint8_t BlockScale::nearest(float value, int bits) const {
  const float most = static_cast<float>((1 << bits) - 1);
  return static_cast<uint8_t>(std::clamp(std::nearbyint(value / scale) + zero, 0.0f, most));
}

BlockScale block_scale(const float* values, int64_t count, int bits) {
  float low = 0, high = 0;
  for (int64_t i = 0; i < count; ++i) low = std::min(low, values[i]), high = std::max(high, values[i]);
  const float levels = static_cast<float>((1 << bits) - 1), middle = static_cast<float>(1 << (bits - 1));
  BlockScale best;
  best.zero = static_cast<uint8_t>(middle);
  if (!(high - low > 1e-30f)) return best;
  double least = INFINITY;
  const auto consider = [&](float scale, float zero) {
    BlockScale candidate{scale, static_cast<uint8_t>(std::clamp(std::nearbyint(zero), 0.0f, levels))};
    double error = 0;
    for (int64_t i = 0; i < count && error < least; ++i) {
      const double rest = values[i] - (candidate.nearest(values[i], bits) - static_cast<float>(candidate.zero)) * scale;
      error += rest * rest;
    }
    if (error < least) least = error, best = candidate;
  };
  const int tries = bits == 8 ? 1 : 12;
  for (int k = 0; k < tries; ++k) {
    const float part = 1 - 0.03f * static_cast<float>(k);
    const float largest = std::max(-low, high) * part;
    consider(largest / (middle - 1), middle);
    if (bits == 8) continue;
    consider((high - low) * part / levels, -low / (high - low) * levels);
    consider(largest / middle, -low >= high ? middle : middle - 1);  // one more step on the side of the larger end
  }
  return best;
}

BlockWeights round_to_blocks(const std::vector<float>& values, int64_t columns, int64_t depth, int bits, int64_t block) {
  BlockWeights w{bits, columns, depth, block, std::vector<uint8_t>(values.size()), {}, {}};
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t from = 0; from < depth; from += block) {
      const int64_t count = std::min(block, depth - from), at = c * depth + from;
      const BlockScale scale = block_scale(values.data() + at, count, bits);
      w.scales.push_back(scale.scale);
      w.zeros.push_back(scale.zero);
      for (int64_t k = at; k < at + count; ++k)
        w.integers[static_cast<size_t>(k)] = scale.nearest(values[static_cast<size_t>(k)], bits);
    }
  return w;
}

std::vector<float> BlockProduct::values() const {
  std::vector<float> result(static_cast<size_t>(columns * depth));
  const float* from = weights->data<float>();
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t k = 0; k < depth; ++k) {
      const float value = static_cast<float>(from[transposed ? c * depth + k : k * columns + c] * alpha);
      if (!std::isfinite(value)) fail("a weight is ", value, ": weights must be finite");
      result[static_cast<size_t>(c * depth + k)] = value;
    }
  return result;
}

std::vector<BlockProduct> block_products(const ModelGraph& graph, const std::map<std::string, KnownType>& types,
                                         const NodePatterns& keep) {
  std::vector<BlockProduct> found;
  const GraphUses uses(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const bool gemm = node.op_type == "Gemm";
    if (!node.domain.empty() || (!gemm && node.op_type != "MatMul") || node.inputs.size() < 2 ||
        keep.match(node.name, node.op_type))
      continue;
    const Tensor* weights = uses.float_constant(node.inputs[1]);
    const auto a = types.find(node.inputs[0]);
    if (!weights || weights->shape.size() != 2 || a == types.end() || a->second.dtype != DType::f32 || a->second.rank < 1)
      continue;
    if (uses.constant(node.inputs[0])) continue;
    if (gemm && integer_or(node, "transA", 0) != 0) continue;
    const bool scaled = gemm && real_or(node, "beta", 1) != 1 && node.inputs.size() > 2 && !node.inputs[2].empty();
    if (scaled && !uses.float_constant(node.inputs[2])) continue;
    const bool transposed = gemm && integer_or(node, "transB", 0) != 0;
    found.push_back({static_cast<int>(i), weights->shape[transposed ? 0 : 1], weights->shape[transposed ? 1 : 0], weights,
                     transposed, gemm ? real_or(node, "alpha", 1) : 1});
  }
  return found;
}

Model write_block_weights(const Model& model, const std::map<int, BlockWeights>& weights) {
  Model result = model;
  FreshNames fresh(model);
  const GraphUses uses(model.graph);
  result.graph.nodes.clear();
  const auto constant = [&](const std::string& wanted, Tensor tensor) {
    result.graph.initializers.push_back({fresh(wanted), std::move(tensor)});
    return result.graph.initializers.back().name;
  };
  for (size_t i = 0; i < model.graph.nodes.size(); ++i) {
    const Node& node = model.graph.nodes[i];
    const auto found = weights.find(static_cast<int>(i));
    if (found == weights.end()) {
      result.graph.nodes.push_back(node);
      continue;
    }
    const BlockWeights& w = found->second;
    const bool biased = node.op_type == "Gemm" && node.inputs.size() > 2 && !node.inputs[2].empty();
    Node product;
    product.name = node.name;
    product.op_type = "MatMulNBits";
    product.domain = microsoft;
    product.inputs = {
        node.inputs[0], constant(node.inputs[1] + "_quantized", w.packed()),
        constant(node.inputs[1] + "_scale", make_tensor<float>(DType::f32, {w.columns * w.blocks()}, w.scales))};
    if (w.bits < 8) product.inputs.push_back(constant(node.inputs[1] + "_zero_point", w.packed_zeros()));
    product.outputs = {biased ? fresh(node.outputs[0] + "_product") : node.outputs[0]};
    for (auto [name, value] :
         {std::pair<const char*, int64_t>{"K", w.depth}, {"N", w.columns}, {"bits", w.bits}, {"block_size", w.block}})
      product.attributes[name].integer = value;
    result.graph.nodes.push_back(product);
    if (!biased) continue;
    std::string bias = node.inputs[2];
    if (const double beta = real_or(node, "beta", 1); beta != 1) {
      const Tensor& given = *uses.constant(bias);
      std::vector<float> values;
      for (int64_t k = 0; k < given.element_count(); ++k) values.push_back(static_cast<float>(number_at(given, k) * beta));
      bias = constant(bias + "_scaled", make_tensor<float>(DType::f32, given.shape, values));
    }
    Node sum;
    sum.name = fresh(node.name + "_bias");
    sum.op_type = "Add";
    sum.inputs = {product.outputs[0], bias};
    sum.outputs = node.outputs;
    result.graph.nodes.push_back(std::move(sum));
  }
  if (!weights.empty()) result.opset_imports.try_emplace(microsoft, 1);
  remove_unread(result.graph, model.graph);
  return result;
}

}  // namespace metac
