// A model that has several sets of adapters and is told in every run which to use: an input "adapter", int64, 0 for the
// model without any and i for the i-th set.
#pragma once
#include <string>
#include <vector>

#include "compiler/ops/model.h"

namespace metac {

struct NamedAdapters {
  std::string name;  // "french"
  std::string path;  // a safetensors file (adapter_file.h)
};

// How many sets a run uses: one, whose number is a scalar [], or one for each row of the batch, [batch].
enum class AdapterInput { scalar, each_row };

// The matrices of each set stay initialisers, [depth, rank] "LAYER.lora_A.NAME" and [rank, columns] "LAYER.lora_B.NAME", of
// which the model makes [sets + 1, depth, greatest rank] and [sets + 1, greatest rank, columns] with zeros in front and
// where a set has less; the products gather from these. All of that but the gathering depends on initialisers alone. With
// `each_row` the first axis of what a product multiplies must be the batch. `model`: compilable. Throws CompileError as
// read_adapter_file does, and where the model has a value "adapter" already.
void add_adapter_choice(Model& model, const std::vector<NamedAdapters>& sets, AdapterInput input);

}  // namespace metac
