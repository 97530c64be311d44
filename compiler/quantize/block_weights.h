// Weights alone in 4 or 8 bits: products with constant matrices become MatMulNBits of domain com.microsoft, whose weights
// have a scale for each block of neighbours along the sum.
#pragma once
#include <optional>

#include "compiler/quantize/quantization_plan.h"

namespace metac {

// w [columns, depth] as MatMulNBits stores it.
struct BlockWeights {
  int bits = 4;
  int64_t columns = 0, depth = 0, block = 32;
  std::vector<uint8_t> integers;  // [columns, depth], unpacked
  std::vector<float> scales;      // [columns, blocks]
  std::vector<uint8_t> zeros;     // [columns, blocks], unpacked

  int64_t blocks() const { return (depth + block - 1) / block; }
  float at(int64_t column, int64_t k) const;
  Tensor packed() const, packed_zeros() const;
};

struct BlockScale {
  float scale = 1;
  uint8_t zero = 0;
  uint8_t nearest(float value, int bits) const;
};
// For `count` numbers: the range among ever smaller ones that leaves the least square error. 4 bits have a zero point of
// their own, 8 bits that of the middle.
BlockScale block_scale(const float* values, int64_t count, int bits);

// `values` [columns, depth], each rounded to the nearest.
BlockWeights round_to_blocks(const std::vector<float>& values, int64_t columns, int64_t depth, int bits, int64_t block);

// A product that can be written so.
struct BlockProduct {
  int node;
  int64_t columns, depth;
  std::vector<float> values() const;  // [columns, depth], Gemm's alpha in it
  const Tensor* weights;
  bool transposed;
  double alpha;
};
std::vector<BlockProduct> block_products(const ModelGraph& graph, const std::map<std::string, KnownType>& types,
                                         const NodePatterns& keep);

// The model with these products' weights, by node.
Model write_block_weights(const Model& model, const std::map<int, BlockWeights>& weights);

}  // namespace metac
