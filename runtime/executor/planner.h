// Where buffers stand in an arena: those that live at the same time do not overlap. The compiler plans what is static
// with it, the executor what depends on the caller's shapes.
//
// Largest first, each into the tightest gap between the ones already placed that live with it (best fit). On the networks
// we measured this reaches the live-set bound or stays within a few per cent of it; an exact search is not worth its time.
#pragma once
#include "../program.h"

namespace METAC_RUNTIME_NAMESPACE {

struct Placement {
  int64_t bytes;
  int32_t first_step, last_step;  // lives in all steps between, both included
  int64_t offset;                 // the answer; a multiple of 64
};

// `order` and `live`: work space for `count` indices each. Returns the bytes of the whole arena. Every answer depends on
// the placements alone, so the same program has the same arena everywhere.
inline int64_t plan_memory(Placement* items, int32_t count, int32_t* order, int32_t* live) {
  auto before = [&](int32_t a, int32_t b) {  // larger, then earlier, then by index
    if (items[a].bytes != items[b].bytes) return items[a].bytes > items[b].bytes;
    if (items[a].first_step != items[b].first_step) return items[a].first_step < items[b].first_step;
    return a < b;
  };
  for (int32_t i = 0; i < count; ++i) order[i] = i;
  // Heap sort: no allocation and no bad case.
  auto sift = [&](int32_t root, int32_t size) {
    for (;;) {
      int32_t child = 2 * root + 1;
      if (child >= size) return;
      if (child + 1 < size && before(order[child], order[child + 1])) ++child;
      if (!before(order[root], order[child])) return;
      const int32_t swap = order[root];
      order[root] = order[child];
      order[child] = swap;
      root = child;
    }
  };
  for (int32_t i = count / 2 - 1; i >= 0; --i) sift(i, count);
  for (int32_t size = count - 1; size > 0; --size) {
    const int32_t swap = order[0];
    order[0] = order[size];
    order[size] = swap;
    sift(0, size);
  }

  int64_t total = 0;
  for (int32_t n = 0; n < count; ++n) {
    Placement& item = items[order[n]];
    const int64_t bytes = (item.bytes + 63) / 64 * 64;
    // The placed ones that live with it, by offset.
    int32_t live_count = 0;
    for (int32_t m = 0; m < n; ++m) {
      const Placement& other = items[order[m]];
      if (other.first_step > item.last_step || other.last_step < item.first_step || other.bytes == 0) continue;
      int32_t at = live_count++;
      for (; at > 0 && items[live[at - 1]].offset > other.offset; --at) live[at] = live[at - 1];
      live[at] = order[m];
    }
    int64_t best = -1, best_gap = INT64_MAX, end = 0;
    for (int32_t m = 0; m < live_count; ++m) {
      const Placement& other = items[live[m]];
      const int64_t gap = other.offset - end;
      if (gap >= bytes && gap < best_gap) {
        best = end;
        best_gap = gap;
      }
      const int64_t other_end = other.offset + (other.bytes + 63) / 64 * 64;
      if (other_end > end) end = other_end;
    }
    item.offset = best >= 0 ? best : end;
    if (item.offset + bytes > total) total = item.offset + bytes;
  }
  return total;
}

}  // namespace METAC_RUNTIME_NAMESPACE
