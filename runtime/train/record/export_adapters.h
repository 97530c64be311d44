// The adapters of a run as a file of their own, in the names and orientation of PEFT: of a layer's A [depth, rank] and
// B [rank, columns] "base_model.model.LAYER.lora_A.weight" [rank, depth] and "...lora_B.weight" [columns, rank]. The
// metadata has "rank" and "alpha", or "alpha LAYER" for each layer where they differ.
#pragma once
#include <list>

#include "../state_set.h"
#include "safetensors.h"

namespace metac::train {

inline std::vector<char> transposed(const void* matrix, int64_t rows, int64_t columns, int64_t element_bytes) {
  std::vector<char> out(static_cast<size_t>(rows * columns * element_bytes));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      std::memcpy(out.data() + (c * rows + r) * element_bytes,
                  static_cast<const char*>(matrix) + (r * columns + c) * element_bytes, static_cast<size_t>(element_bytes));
  return out;
}

// What all layers have, or "" where they differ.
inline std::string common(const std::vector<std::string>& values) {
  for (const std::string& value : values)
    if (value != values[0]) return "";
  return values.empty() ? "" : values[0];
}

inline void export_adapters(const TrainTables& tables, const StateSet& states, const std::string& path) {
  std::vector<NamedTensor> tensors;
  std::list<std::vector<char>> matrices;
  std::vector<std::string> ranks, alphas;
  const auto add = [&](int32_t s, const std::string& name) {
    const State& about = states.about(s);
    matrices.push_back(
        transposed(states.value(states.final_of(s)), about.dims[0], about.dims[1], byte_count(about) / elements(about)));
    tensors.push_back({name, about.dtype, {about.dims[1], about.dims[0]}, matrices.back().data(), byte_count(about)});
  };
  Metadata metadata = {{"format", "pt"}, {"written by", tables.version}};
  for (int32_t k = 0; k < tables.adapter_count; ++k) {
    const Adapter& adapter = tables.adapters[k];
    const std::string layer = std::string("base_model.model.") + adapter.layer;
    add(adapter.a, layer + ".lora_A.weight");
    add(adapter.b, layer + ".lora_B.weight");
    ranks.push_back(std::to_string(states.about(adapter.a).dims[1]));
    alphas.push_back(text_of(adapter.alpha));
  }
  if (const std::string rank = common(ranks); !rank.empty()) metadata["rank"] = rank;
  if (const std::string alpha = common(alphas); !alpha.empty()) metadata["alpha"] = alpha;
  for (int32_t k = 0; metadata.count("alpha") == 0 && k < tables.adapter_count; ++k)
    metadata[std::string("alpha ") + tables.adapters[k].layer] = alphas[static_cast<size_t>(k)];
  write_safetensors(path, tensors, metadata, false);
}

}  // namespace metac::train
