#include "compiler/passes/plan_memory.h"

#include <algorithm>
#include <numeric>

namespace metac {

// 64 bytes more than asked for: vector code may read one vector beyond the last element.
static int64_t padded(int64_t bytes) { return (bytes + 127) / 64 * 64; }

int64_t plan_memory(std::vector<ArenaBlock>& blocks) {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  int64_t total = 0;
  std::vector<size_t> placed;
  for (size_t k : order) {
    ArenaBlock& block = blocks[k];
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (size_t other : placed)
      if (blocks[other].first <= block.last && block.first <= blocks[other].last)
        taken.push_back({blocks[other].offset, blocks[other].offset + padded(blocks[other].bytes)});
    std::sort(taken.begin(), taken.end());
    int64_t offset = 0;
    for (auto [begin, end] : taken) {
      if (offset + padded(block.bytes) <= begin) break;
      offset = std::max(offset, end);
    }
    block.offset = offset;
    total = std::max(total, offset + padded(block.bytes));
    placed.push_back(k);
  }
  return total;
}

int64_t live_set_bytes(const std::vector<ArenaBlock>& blocks) {
  std::vector<std::pair<int, int64_t>> changes;
  for (const ArenaBlock& block : blocks) {
    changes.push_back({block.first, padded(block.bytes)});
    changes.push_back({block.last + 1, -padded(block.bytes)});
  }
  std::sort(changes.begin(), changes.end());
  int64_t now = 0, most = 0;
  for (auto [step, change] : changes) {
    now += change;
    most = std::max(most, now);
  }
  return most;
}

}  // namespace metac
