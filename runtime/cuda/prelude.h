// Everything that the text of a CUDA kernel may use: the scalar functions of runtime/device (the same formulas as on the
// CPU) and what a block of threads does together. Compile with --fmad=false: a fused multiply-add happens where fma() is
// written and nowhere else.
#pragma once
#ifdef __CUDACC_RTC__
#include "runtime_compiled.h"
#else
#include <cuda_runtime.h>
#endif

#ifndef METAC_RUNTIME_NAMESPACE
#define METAC_RUNTIME_NAMESPACE metac_runtime
#endif
#define METAC_SCALARS_ONLY

#include "../device/types.h"
// (order matters)
#include "../device/dot.h"
#include "../device/math.h"
#include "../device/math_f32.h"
#include "../device/scalar.h"
#include "members.h"
#include "tensor_multiply.h"
#include "tile_copy.h"
#ifndef __CUDACC_RTC__
#include "convolution.h"
#include "launch.h"
#include "matrix_product.h"
#endif

namespace METAC_RUNTIME_NAMESPACE {

// Grids have two dimensions because one holds no more than 2^31 - 1 blocks.
static __device__ __forceinline__ int64_t block_index() { return static_cast<int64_t>(blockIdx.y) * gridDim.x + blockIdx.x; }

// The member that a block belongs to.
template <int members, int arguments>
static __device__ __forceinline__ int member_of(const Members<members, arguments>& all, int block) {
  int low = 0, high = members;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (all.first_block[middle] <= block)
      low = middle;
    else
      high = middle;
  }
  return low;
}

// `count` neighbouring elements at once, of 16 bytes at most; the address is a multiple of their size.
template <int bytes>
struct WordOf;
template <>
struct WordOf<1> {
  typedef uchar1 Type;
};
template <>
struct WordOf<2> {
  typedef ushort1 Type;
};
template <>
struct WordOf<4> {
  typedef uint1 Type;
};
template <>
struct WordOf<8> {
  typedef uint2 Type;
};
template <>
struct WordOf<16> {
  typedef uint4 Type;
};
template <int count, class T>
static __device__ __forceinline__ void load_pack(T* to, const T* from) {
  typedef typename WordOf<count* static_cast<int>(sizeof(T))>::Type Word;
  const Word word = *reinterpret_cast<const Word*>(from);
  __builtin_memcpy(to, &word, sizeof word);
}
template <int count, class T>
static __device__ __forceinline__ void store_pack(T* to, const T* from) {
  typedef typename WordOf<count* static_cast<int>(sizeof(T))>::Type Word;
  Word word;
  __builtin_memcpy(&word, from, sizeof word);
  *reinterpret_cast<Word*>(to) = word;
}

constexpr int warp_threads = 32;

// The value that the thread `distance` further on in the warp has. All threads of the warp must call it.
template <class T>
static __device__ __forceinline__ T from_further_on(T value, int distance) {
  typedef typename Choose<(sizeof(T) > 4), unsigned long long, unsigned>::type Bits;
  Bits bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  bits = __shfl_down_sync(0xffffffffu, bits, distance);
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}

// The values of a block's threads, combined in an order that depends on the block's size alone: a tree within each warp,
// then warp after warp. Every thread gets the result. `shared` holds one value per warp. All threads of the block must
// call it, and there are whole warps of them.
template <int threads, class T, class Combine>
static __device__ __forceinline__ T combine_block(T value, T* shared, Combine combine) {
  static_assert(threads % warp_threads == 0, "whole warps");
  for (int distance = warp_threads / 2; distance > 0; distance /= 2)
    value = combine(value, from_further_on(value, distance));
  __syncthreads();  // others may still read what stood there
  if (threadIdx.x % warp_threads == 0) shared[threadIdx.x / warp_threads] = value;
  __syncthreads();
  T result = shared[0];
#pragma unroll
  for (int warp = 1; warp < threads / warp_threads; ++warp) result = combine(result, shared[warp]);
  return result;
}

struct CombineAdd {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return add(a, b);
  }
};
struct CombineMul {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return mul(a, b);
  }
};
struct CombineMin {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return min(a, b);
  }
};
struct CombineMax {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return max(a, b);
  }
};
struct CombineAnd {
  __device__ __forceinline__ bool operator()(bool a, bool b) const { return a && b; }
};
struct CombineOr {
  __device__ __forceinline__ bool operator()(bool a, bool b) const { return a || b; }
};
// The values of `count` neighbouring threads of a warp (a power of two; the first is a multiple of it), combined: all have
// the same bits. All threads of the warp must call it.
template <int count, class T, class Combine>
static __device__ __forceinline__ T combine_neighbours(T value, Combine combine) {
#pragma unroll
  for (int distance = count / 2; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, distance));
  return value;
}
template <int count, class T>
static __device__ __forceinline__ T neighbours_add(T value) {
  return combine_neighbours<count>(value, CombineAdd());
}
template <int count, class T>
static __device__ __forceinline__ T neighbours_max(T value) {
  return combine_neighbours<count>(value, CombineMax());
}
template <int threads, class T>
static __device__ __forceinline__ T block_add(T value, T* shared) {
  return combine_block<threads>(value, shared, CombineAdd());
}
template <int threads, class T>
static __device__ __forceinline__ T block_mul(T value, T* shared) {
  return combine_block<threads>(value, shared, CombineMul());
}
template <int threads, class T>
static __device__ __forceinline__ T block_min(T value, T* shared) {
  return combine_block<threads>(value, shared, CombineMin());
}
template <int threads, class T>
static __device__ __forceinline__ T block_max(T value, T* shared) {
  return combine_block<threads>(value, shared, CombineMax());
}
template <int threads>
static __device__ __forceinline__ bool block_and(bool value, bool* shared) {
  return combine_block<threads>(value, shared, CombineAnd());
}
template <int threads>
static __device__ __forceinline__ bool block_or(bool value, bool* shared) {
  return combine_block<threads>(value, shared, CombineOr());
}

}  // namespace METAC_RUNTIME_NAMESPACE
