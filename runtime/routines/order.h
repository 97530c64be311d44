// The order of elements of every dtype for routines that sort: NaN equals NaN and is greater than every number. Half
// types are read as float.
#pragma once
#include "../routine.h"

namespace METAC_RUNTIME_NAMESPACE {

template <typename K>
inline int compare_keys(K a, K b) {
  const bool a_nan = a != a, b_nan = b != b;
  if (a_nan || b_nan) return static_cast<int>(a_nan) - static_cast<int>(b_nan);
  return a < b ? -1 : b < a ? 1 : 0;
}
template <typename T>
inline int compare_elements(T a, T b) {
  return compare_keys(value_of(a), value_of(b));
}

// Sorts indices by `before`, stably, by merging runs; `space` holds as many indices again. No allocation, n log n always.
template <typename Before>
inline void sort_indices(int64_t* indices, int64_t* space, int64_t count, Before before) {
  constexpr int64_t run = 16;
  for (int64_t start = 0; start < count; start += run) {
    const int64_t end = start + run < count ? start + run : count;
    for (int64_t i = start + 1; i < end; ++i) {
      const int64_t moving = indices[i];
      int64_t at = i;
      for (; at > start && before(moving, indices[at - 1]); --at) indices[at] = indices[at - 1];
      indices[at] = moving;
    }
  }
  int64_t *from = indices, *to = space;
  for (int64_t width = run; width < count; width *= 2) {
    for (int64_t start = 0; start < count; start += 2 * width) {
      const int64_t middle = start + width < count ? start + width : count,
                    end = middle + width < count ? middle + width : count;
      int64_t a = start, b = middle;
      for (int64_t i = start; i < end; ++i)
        to[i] = a < middle && (b >= end || !before(from[b], from[a])) ? from[a++] : from[b++];
    }
    int64_t* swap = from;
    from = to;
    to = swap;
  }
  if (from != indices) std::memcpy(indices, from, static_cast<size_t>(count) * sizeof(int64_t));
}

// The extents around an axis: [outer, axis, inner].
struct AxisView {
  int64_t outer = 1, extent = 1, inner = 1;
};
inline AxisView around_axis(const RoutineTensor& x, int64_t axis) {
  AxisView view;
  for (int32_t d = 0; d < x.rank; ++d) (d < axis ? view.outer : d == axis ? view.extent : view.inner) *= x.dims[d];
  return view;
}

inline bool routine_memory(RoutineCall& call, const char* routine) {
  return call.failure->set(Status::out_of_memory, "no memory for the work of routine \"%s\"", routine);
}

}  // namespace METAC_RUNTIME_NAMESPACE
