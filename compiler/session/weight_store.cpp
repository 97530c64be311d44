#include "compiler/session/weight_store.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>

namespace metac {

namespace {

// Of some lines of the content: who finds an equal one compares all of it.
size_t sample_hash(const std::byte* data, int64_t bytes) {
  constexpr int64_t samples = 64, sample_bytes = 64;
  const int64_t step = std::max(bytes / samples, sample_bytes);
  size_t hash = static_cast<size_t>(bytes);
  for (int64_t at = 0; at < bytes; at += step) {
    const int64_t size = std::min(sample_bytes, bytes - at);
    const std::string_view sample(reinterpret_cast<const char*>(data + at), static_cast<size_t>(size));
    hash = hash * 31 + std::hash<std::string_view>()(sample);
  }
  return hash;
}

}  // namespace

void WeightStore::find_lent() {
  const std::lock_guard lock(mutex_);
  for (const std::string_view content : lent_) {
    lent_blocks_.emplace_back(reinterpret_cast<const std::byte*>(content.data()), [](const std::byte*) {});
    const auto bytes = static_cast<int64_t>(content.size());
    blocks_.emplace(sample_hash(lent_blocks_.back().get(), bytes), Block{lent_blocks_.back(), bytes, true});
  }
}

WeightsBlock WeightStore::share(std::shared_ptr<std::byte> fresh, int64_t bytes) {
  const size_t hash = sample_hash(fresh.get(), bytes);
  const std::lock_guard lock(mutex_);
  auto [first, last] = blocks_.equal_range(hash);
  while (first != last) {
    const WeightsBlock known = first->second.data.lock();
    if (!known) {
      first = blocks_.erase(first);
      continue;
    }
    if (first->second.bytes == bytes && std::memcmp(known.get(), fresh.get(), static_cast<size_t>(bytes)) == 0) return known;
    ++first;
  }
  blocks_.emplace(hash, Block{fresh, bytes});
  return fresh;
}

PreparedWeights WeightStore::prepare(const CompiledModel& model, const std::vector<RawParameter>& parameters,
                                     const CpuTarget& cpu, const JitOptions& options) {
  if (model.weights.empty()) return {};
  std::call_once(lent_are_found_, [this] { find_lent(); });
  std::vector<std::shared_ptr<std::byte>> fresh(model.weights.size());
  // What a layout leaves out is not written by anybody and belongs to the content all the same: zeros.
  for (size_t k = 0; k < fresh.size(); ++k) fresh[k] = make_weights_block(model.weights[k].bytes);
  run_prepare_into(model, parameters, cpu, options, [&](const WeightSource& source) {
    return fresh[static_cast<size_t>(&source - model.weights.data())].get();
  });
  std::vector<WeightsBlock> blocks(fresh.size());
  for (size_t k = 0; k < fresh.size(); ++k) blocks[k] = share(std::move(fresh[k]), model.weights[k].bytes);
  return PreparedWeights(model, std::move(blocks));
}

int64_t WeightStore::bytes() const {
  const std::lock_guard lock(mutex_);
  std::erase_if(blocks_, [](const auto& entry) { return entry.second.data.expired(); });
  int64_t bytes = 0;
  for (const auto& [unused, block] : blocks_)
    if (!block.lent) bytes += block.bytes;
  return bytes;
}

}  // namespace metac
