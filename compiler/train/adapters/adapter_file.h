// Adapters as a safetensors file has them, in PEFT's names: "base_model.model.LAYER.lora_A.weight" [rank, depth] and
// "...lora_B.weight" [columns, rank], of float32, float16, bfloat16 or float64. Training programs write such files
// (runtime/train/record/export_adapters.h), and so does PEFT's save_pretrained, which says alpha in adapter_config.json.
#pragma once
#include <string>
#include <vector>

#include "compiler/ops/model.h"
#include "compiler/train/adapters/product_weights.h"

namespace metac {

// What is added to a weight: scale * A B.
struct LowRankMatrix {
  size_t weight = 0;  // of the model's product_weights
  Tensor a, b;        // A [depth, rank] and B [rank, columns], as their products take them (adapter_dtype)
  double scale = 1;   // alpha / rank

  int64_t rank() const { return b.shape[0]; }
};

// The file is nobody's we know: everything it says is checked. Throws CompileError with the file and the tensor where it is
// no such file, where a layer is none of the model's, where shapes are not those of its weight, and where nothing says
// alpha: neither "alpha" or "alpha LAYER" in the file's metadata, nor adapter_config.json beside it.
std::vector<LowRankMatrix> read_adapter_file(const std::string& path, const Model& model,
                                             const std::vector<ProductWeight>& weights);

}  // namespace metac
