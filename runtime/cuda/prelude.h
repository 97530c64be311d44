// Everything that the text of a CUDA kernel may use: the scalar functions of runtime/device (the same formulas as on the
// CPU) and what a block of threads does together. Compile with --fmad=false: a fused multiply-add happens where fma() is
// written and nowhere else.
#pragma once
#include <cuda_runtime.h>

#ifndef METAC_RUNTIME_NAMESPACE
#define METAC_RUNTIME_NAMESPACE metac_runtime
#endif
#define METAC_SCALARS_ONLY

#include "../device/types.h"
// (order matters)
#include "../device/scalar.h"
#include "../device/math_f32.h"
#include "../device/math.h"
#include "launch.h"

namespace METAC_RUNTIME_NAMESPACE {

// Grids have two dimensions because one holds no more than 2^31 - 1 blocks.
static __device__ __forceinline__ int64_t block_index() {
  return static_cast<int64_t>(blockIdx.y) * gridDim.x + blockIdx.x;
}

// The values of a block's threads, combined in a tree whose shape depends on the block's size alone; every thread gets the
// result. `shared` holds one value per thread. All threads of the block must call it.
template <int threads, class T, class Combine>
static __device__ __forceinline__ T combine_block(T value, T* shared, Combine combine) {
  const int thread = threadIdx.x;
  __syncthreads();  // others may still read what stood there
  shared[thread] = value;
  __syncthreads();
  for (int half = threads / 2; half > 0; half /= 2) {
    if (thread < half) shared[thread] = combine(shared[thread], shared[thread + half]);
    __syncthreads();
  }
  return shared[0];
}

struct CombineAdd {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const { return add(a, b); }
};
struct CombineMul {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const { return mul(a, b); }
};
struct CombineMin {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const { return min(a, b); }
};
struct CombineMax {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const { return max(a, b); }
};
struct CombineAnd {
  __device__ __forceinline__ bool operator()(bool a, bool b) const { return a && b; }
};
struct CombineOr {
  __device__ __forceinline__ bool operator()(bool a, bool b) const { return a || b; }
};
template <int threads, class T>
static __device__ __forceinline__ T block_add(T value, T* shared) { return combine_block<threads>(value, shared, CombineAdd()); }
template <int threads, class T>
static __device__ __forceinline__ T block_mul(T value, T* shared) { return combine_block<threads>(value, shared, CombineMul()); }
template <int threads, class T>
static __device__ __forceinline__ T block_min(T value, T* shared) { return combine_block<threads>(value, shared, CombineMin()); }
template <int threads, class T>
static __device__ __forceinline__ T block_max(T value, T* shared) { return combine_block<threads>(value, shared, CombineMax()); }
template <int threads>
static __device__ __forceinline__ bool block_logical_and(bool value, bool* shared) { return combine_block<threads>(value, shared, CombineAnd()); }
template <int threads>
static __device__ __forceinline__ bool block_logical_or(bool value, bool* shared) { return combine_block<threads>(value, shared, CombineOr()); }

}  // namespace METAC_RUNTIME_NAMESPACE
