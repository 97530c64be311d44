// Weights in blocks of few bits, rounded one after the other so that the rest makes up for what rounding did to the products
// of the data (E. Frantar et al., "GPTQ: accurate post-training quantization for generative pre-trained transformers",
// 2022).
#pragma once
#include "compiler/quantize/block_weights.h"

namespace metac {

// Rows of what the weights are multiplied with: the sum of x x^T over all of them.
class SecondMoments {
 public:
  explicit SecondMoments(int64_t depth) : depth_(depth), sums_(static_cast<size_t>(depth * depth)) {}
  void add(const Tensor& rows);
  int64_t depth() const { return depth_; }
  // The upper triangular factor U of the inverse, which is U^T U; empty where the numbers do not allow it.
  std::vector<double> inverse_factor() const;

 private:
  int64_t depth_;
  std::vector<double> sums_;
};

BlockWeights compensate(std::vector<float> values, int64_t columns, const SecondMoments& moments, int bits, int64_t block);

// Of all products with data: by node. Streams the data as often as the moments need to fit into memory.
std::map<int, BlockWeights> compensated_weights(const Model& model, const std::vector<BlockProduct>& products, int bits,
                                                int64_t block, const CalibrationData& data, const SessionOptions& options);

}  // namespace metac
