// Elements that lie strides apart: whether they are contiguous all the same, whether writing them may meet one element
// twice, and copies of them. Strides count elements; those of dims of one element mean nothing.
#pragma once
#include <cstring>
#include <utility>

#include "memory.h"

namespace METAC_RUNTIME_NAMESPACE {

// `strides` may be null: contiguous.
inline bool is_contiguous(const int64_t* dims, int32_t rank, const int64_t* strides) {
  int64_t expected = 1;
  bool holds = true;
  for (int32_t axis = rank - 1; strides != nullptr && axis >= 0; --axis) {
    if (dims[axis] == 0) return true;
    holds &= dims[axis] == 1 || strides[axis] == expected;
    if (__builtin_mul_overflow(expected, dims[axis], &expected)) return false;
  }
  return holds;
}

// From the first element to the end of the last, in elements, where every stride reaches beyond all that smaller ones do, so
// that no two elements meet; -1: one does not, or is not positive.
inline int64_t span_of_distinct(const int64_t* dims, int32_t rank, const int64_t* strides) {
  for (int32_t axis = 0; axis < rank; ++axis)
    if (dims[axis] == 0) return 0;
  int64_t span = 1;
  for (int64_t smaller = 0;;) {  // the strides in ascending order
    int32_t next = -1;
    for (int32_t axis = 0; axis < rank; ++axis) {
      if (dims[axis] == 1 || (smaller > 0 && strides[axis] <= smaller)) continue;
      if (next < 0 || strides[axis] < strides[next]) next = axis;
    }
    if (next < 0) break;
    int64_t further = 0;
    if (strides[next] < span || __builtin_mul_overflow(dims[next] - 1, strides[next], &further) ||
        __builtin_add_overflow(span, further, &span))
      return -1;
    for (int32_t axis = 0; axis < rank; ++axis)
      if (axis != next && dims[axis] > 1 && strides[axis] == strides[next]) return -1;
    smaller = strides[next];
  }
  return span;
}

struct StridedAxis {
  int64_t dim, from, to;
};

// A plane of elements: rows whose elements lie behind one another on both sides are copied whole, others in tiles, of which
// both sides stay in the cache.
template <class T>
void copy_plane(const StridedAxis& row, const StridedAxis& column, const T* from, T* to) {
  constexpr int64_t tile = 32;
  if (column.from == 1 && column.to == 1) {
    for (int64_t r = 0; r < row.dim; ++r)
      std::memcpy(to + r * row.to, from + r * row.from, static_cast<size_t>(column.dim) * sizeof(T));
    return;
  }
  for (int64_t r0 = 0; r0 < row.dim; r0 += tile)
    for (int64_t c0 = 0; c0 < column.dim; c0 += tile) {
      const int64_t r1 = r0 + tile < row.dim ? r0 + tile : row.dim, c1 = c0 + tile < column.dim ? c0 + tile : column.dim;
      for (int64_t r = r0; r < r1; ++r)
        for (int64_t c = c0; c < c1; ++c) to[r * row.to + c * column.to] = from[r * row.from + c * column.from];
    }
}

template <class T>
void copy_strided(StridedAxis* axes, int32_t count, const T* from, T* to) {
  const StridedAxis one{1, 0, 0};
  const auto size = [](int64_t stride) { return stride < 0 ? -stride : stride; };
  // Beside the last axis the one of the rest along which both sides move least.
  for (int32_t k = 0; k + 2 < count; ++k)
    if (size(axes[k].from) + size(axes[k].to) < size(axes[count - 2].from) + size(axes[count - 2].to))
      std::swap(axes[k], axes[count - 2]);
  const StridedAxis &column = count > 0 ? axes[count - 1] : one, &row = count > 1 ? axes[count - 2] : one;
  int64_t at[64] = {};
  for (;;) {
    copy_plane(row, column, from, to);
    int32_t k = count - 3;
    for (; k >= 0; --k) {
      from += axes[k].from;
      to += axes[k].to;
      if (++at[k] < axes[k].dim) break;
      from -= axes[k].from * axes[k].dim;
      to -= axes[k].to * axes[k].dim;
      at[k] = 0;
    }
    if (k < 0) return;
  }
}

// Copies elements of `bytes` bytes (1, 2, 4 or 8), of 64 axes at most. A null list of strides: contiguous.
inline void copy_strided(int64_t bytes, const int64_t* dims, int32_t rank, const void* from, const int64_t* from_strides,
                         void* to, const int64_t* to_strides) {
  StridedAxis axes[64];
  int32_t count = 0;
  int64_t contiguous = 1;
  for (int32_t axis = rank - 1; axis >= 0; contiguous *= dims[axis--]) {  // the last axis first
    if (dims[axis] == 0) return;
    if (dims[axis] == 1) continue;
    const StridedAxis next{dims[axis], from_strides != nullptr ? from_strides[axis] : contiguous,
                           to_strides != nullptr ? to_strides[axis] : contiguous};
    StridedAxis* const inner = count > 0 ? &axes[count - 1] : nullptr;
    if (inner != nullptr && next.from == inner->from * inner->dim && next.to == inner->to * inner->dim)
      inner->dim *= next.dim;
    else
      axes[count++] = next;
  }
  for (int32_t k = 0; k < count / 2; ++k) std::swap(axes[k], axes[count - 1 - k]);
  const auto copy = [&](auto element) {
    using T = decltype(element);
    copy_strided(axes, count, static_cast<const T*>(from), static_cast<T*>(to));
  };
  bytes == 1 ? copy(uint8_t{}) : bytes == 2 ? copy(uint16_t{}) : bytes == 4 ? copy(uint32_t{}) : copy(uint64_t{});
}

}  // namespace METAC_RUNTIME_NAMESPACE
