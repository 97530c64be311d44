// The weights of a model's matrix products: which initialisers MatMul, Gemm and MatMulNBits multiply data with, however
// they are stored. What adapters are added to.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "compiler/ops/model.h"

namespace metac {

// One product y = factor * (x W), where x [..., depth] is operand 0 of the node and y [..., columns] its output.
struct WeightProduct {
  int node = 0;                  // in the graph
  double factor = 1;             // Gemm's alpha
  bool data_transposed = false;  // Gemm's transA: operand 0 is x transposed
  DType dtype = DType::f32;      // of x and of W as it is multiplied
};

// An initialiser that is the matrix W [depth, columns] of products, directly or behind DequantizeLinear, Cast, Transpose
// and Identity.
struct ProductWeight {
  int initializer = 0;
  int64_t depth = 0, columns = 0;
  bool transposed = false;  // it is stored as [columns, depth]
  bool quantized = false;   // its elements are no numbers of W, but what those are computed from
  std::vector<WeightProduct> products;
};

// All of them, in the order of the first product of each. An initialiser that some products take transposed and some as it
// is comes twice. Products inside If, Loop, Scan and functions are none of these.
std::vector<ProductWeight> product_weights(const Model& model);

// The layer that a weight belongs to, as PyTorch calls it: "layers.0.q_proj" of "layers.0.q_proj.weight", of ".qweight" and
// of ".weight_quantized"; a name that does not end so is the layer's own.
std::string layer_of_weight(const std::string& name);

// The first node that reads a value, as messages name it, or "nothing".
std::string first_reader(const ModelGraph& graph, const std::string& name);

}  // namespace metac
