// top_k(x) -> values, indices; attributes axis, largest, sorted (the k answers are always sorted).
#pragma once
#include "order.h"

namespace METAC_RUNTIME_NAMESPACE {

// A heap of the k best seen so far, the worst of them on top: n log k, and no more work space than k.
template <typename T>
inline void top_k_row(const T* row, int64_t stride, int64_t extent, int64_t k, bool largest, int64_t* heap) {
  auto before = [&](int64_t a, int64_t b) {  // is a a better answer than b? ties: the lower index
    const int order = compare_elements(row[a * stride], row[b * stride]);
    return order != 0 ? (largest ? order > 0 : order < 0) : a < b;
  };
  int64_t size = 0;
  auto sift_down = [&](int64_t at) {
    for (;;) {
      int64_t child = 2 * at + 1;
      if (child >= size) return;
      if (child + 1 < size && before(heap[child], heap[child + 1])) ++child;
      if (!before(heap[at], heap[child])) return;
      const int64_t swap = heap[at];
      heap[at] = heap[child];
      heap[child] = swap;
      at = child;
    }
  };
  for (int64_t i = 0; i < k; ++i) heap[size++] = i;
  for (int64_t i = size / 2 - 1; i >= 0; --i) sift_down(i);
  if (k == 0) return;
  auto worst = value_of(row[heap[0] * stride]);
  for (int64_t i = k; i < extent; ++i) {
    const auto key = value_of(row[i * stride]);
    if (largest ? key <= worst : key >= worst) continue;  // most elements; a NaN is neither
    if (!before(i, heap[0])) continue;
    heap[0] = i;
    sift_down(0);
    worst = value_of(row[heap[0] * stride]);
  }
  while (size > 1) {  // the worst goes to the back
    --size;
    const int64_t swap = heap[0];
    heap[0] = heap[size];
    heap[size] = swap;
    sift_down(0);
  }
}

inline bool top_k(RoutineCall& call) {
  if (!call.prepare_outputs()) return false;
  const RoutineTensor& x = call.inputs[0];
  const int64_t axis = call.integer("axis", 0);
  const bool largest = call.integer("largest", 1) != 0;
  const AxisView view = around_axis(x, axis);
  const int64_t k = around_axis(call.outputs[1], axis).extent;
  if (k < 0 || k > view.extent)
    return call.failure->set(Status::invalid_argument, "TopK: k is %lld, the axis has %lld elements",
                             static_cast<long long>(k), static_cast<long long>(view.extent));
  int64_t* const best = call.work(k);
  if (best == nullptr) return routine_memory(call, "top_k");
  int64_t* indices = call.outputs[1].as<int64_t>();
  return with_element(x.dtype, [&](auto element) {
    using T = decltype(element);
    const T* data = x.as<T>();
    T* values = call.outputs[0].as<T>();
    for (int64_t outer = 0; outer < view.outer; ++outer) {
      for (int64_t inner = 0; inner < view.inner; ++inner) {
        const T* row = data + outer * view.extent * view.inner + inner;
        top_k_row(row, view.inner, view.extent, k, largest, best);
        for (int64_t i = 0; i < k; ++i) {
          const int64_t to = (outer * k + i) * view.inner + inner;
          if (values != nullptr) values[to] = row[best[i] * view.inner];
          if (indices != nullptr) indices[to] = best[i];
        }
      }
    }
    return true;
  });
}

}  // namespace METAC_RUNTIME_NAMESPACE
