// unique(x) -> values, indices, inverse, counts along an axis; binds the number of distinct slices.
#pragma once
#include "order.h"

namespace METAC_RUNTIME_NAMESPACE {

inline bool unique(RoutineCall& call) {
  const RoutineTensor& x = call.inputs[0];
  const bool sorted = call.integer("sorted", 1) != 0;
  const AxisView view = around_axis(x, call.integer("axis", 0));
  const int64_t n = view.extent;
  // order: slices ascending, equal ones by position. group: per slice, the position of its first equal one.
  int64_t* const order = n <= most_bytes ? call.work(4 * n) : nullptr;
  if (order == nullptr) return routine_memory(call, "unique");
  int64_t *const space = order + n, *const first = space + n, *const rank = first + n;
  return with_element(x.dtype, [&](auto element) {
    using T = decltype(element);
    const T* data = x.as<T>();
    auto compare = [&](int64_t a, int64_t b) {
      for (int64_t outer = 0; outer < view.outer; ++outer) {
        for (int64_t inner = 0; inner < view.inner; ++inner) {
          const int difference =
              compare_elements(data[(outer * n + a) * view.inner + inner], data[(outer * n + b) * view.inner + inner]);
          if (difference != 0) return difference;
        }
      }
      return 0;
    };
    for (int64_t i = 0; i < n; ++i) order[i] = i;
    sort_indices(order, space, n, [&](int64_t a, int64_t b) { return compare(a, b) < 0; });
    // The first slice of every run of equal ones; the sort is stable, so it is the one that occurs first.
    int64_t distinct = 0;
    for (int64_t i = 0; i < n; ++i) {
      if (i == 0 || compare(order[i - 1], order[i]) != 0) first[distinct++] = order[i];
      rank[order[i]] = distinct - 1;
    }
    if (!sorted) {  // number the groups by first occurrence instead
      for (int64_t g = 0; g < distinct; ++g) order[g] = g;
      sort_indices(order, space, distinct, [&](int64_t a, int64_t b) { return first[a] < first[b]; });
      for (int64_t g = 0; g < distinct; ++g) space[order[g]] = g;
      for (int64_t i = 0; i < n; ++i) rank[i] = space[rank[i]];
      for (int64_t g = 0; g < distinct; ++g) space[g] = first[order[g]];
      for (int64_t g = 0; g < distinct; ++g) first[g] = space[g];
    }
    if (call.symbol_count > 0) call.symbols[0] = distinct;
    if (!call.prepare_outputs()) return false;
    T* values = call.outputs[0].as<T>();
    if (values != nullptr)
      for (int64_t outer = 0; outer < view.outer; ++outer)
        for (int64_t g = 0; g < distinct; ++g)
          for (int64_t inner = 0; inner < view.inner; ++inner)
            values[(outer * distinct + g) * view.inner + inner] = data[(outer * n + first[g]) * view.inner + inner];
    int64_t *indices = nullptr, *inverse = nullptr, *counts = nullptr;
    if (call.output_count > 1) indices = call.outputs[1].as<int64_t>();
    if (call.output_count > 2) inverse = call.outputs[2].as<int64_t>();
    if (call.output_count > 3) counts = call.outputs[3].as<int64_t>();
    for (int64_t g = 0; g < distinct; ++g) {
      if (indices != nullptr) indices[g] = first[g];
      if (counts != nullptr) counts[g] = 0;
    }
    for (int64_t i = 0; i < n; ++i) {
      if (inverse != nullptr) inverse[i] = rank[i];
      if (counts != nullptr) ++counts[rank[i]];
    }
    return true;
  });
}

}  // namespace METAC_RUNTIME_NAMESPACE
