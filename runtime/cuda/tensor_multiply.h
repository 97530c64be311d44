// Products of tiles on tensor cores. A warp has down * across parts of 16 by 8 elements, and a thread of it four sums of each: those in
// rows lane / 4 and lane / 4 + 8, columns lane % 4 * 2 and the next. Whatever the type, an instruction takes eight words of 4
// bytes along the sum: a thread gives words lane % 4 and lane % 4 + 4 of rows lane / 4 and lane / 4 + 8 of the left tile, and of
// column lane / 4 of the right one (the PTX manual, "Matrix fragments for mma.m16n8k8 / k16 / k32").
//
// The order in which an instruction adds is the hardware's: the same from run to run, but not that of the CPU.
#pragma once

namespace METAC_RUNTIME_NAMESPACE {

#ifdef METAC_STANDS_IN_FOR_CUDA
#define METAC_TENSOR(name, type, constraint, shape, left, right, to)                                                       \
  struct Tensor_##name {                                                                                                   \
    typedef type Sum;                                                                                                      \
    static void multiply(Sum* d, const uint32_t* a, const uint32_t* b) { shim_tensor_multiply(#left, #right, d, a, b); } \
  };
#else
#define METAC_TENSOR(name, type, constraint, shape, left, right, to)                                                           \
  struct Tensor_##name {                                                                                                       \
    typedef type Sum;                                                                                                          \
    static __device__ __forceinline__ void multiply(Sum* d, const uint32_t* a, const uint32_t* b) {                            \
      asm("mma.sync.aligned." #shape ".row.col." #to "." #left "." #right "." #to " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
          : "+" constraint(d[0]), "+" constraint(d[1]), "+" constraint(d[2]), "+" constraint(d[3])                            \
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                                                 \
    }                                                                                                                          \
  };
#endif
METAC_TENSOR(f16, float, "f", m16n8k16, f16, f16, f32)
METAC_TENSOR(bf16, float, "f", m16n8k16, bf16, bf16, f32)
METAC_TENSOR(tf32, float, "f", m16n8k8, tf32, tf32, f32)
METAC_TENSOR(s8s8, int, "r", m16n8k32, s8, s8, s32)
METAC_TENSOR(u8u8, int, "r", m16n8k32, u8, u8, s32)
METAC_TENSOR(s8u8, int, "r", m16n8k32, s8, u8, s32)
METAC_TENSOR(u8s8, int, "r", m16n8k32, u8, s8, s32)
#undef METAC_TENSOR

template <class Kind>
static __device__ __forceinline__ uint32_t tensor_word(uint32_t word) { return word; }
// To the nearest of the numbers with 10 bits of mantissa, ties away from zero.
template <>
__device__ __forceinline__ uint32_t tensor_word<Tensor_tf32>(uint32_t word) {
  return (word & 0x7f800000u) == 0x7f800000u ? word : (word + 0x1000u) & ~0x1fffu;
}

// Two numbers in a word, the first one low, rounded to the type; one number of TF32.
template <class Kind>
static __device__ __forceinline__ uint32_t tensor_pair(float first, float second);
#ifdef METAC_STANDS_IN_FOR_CUDA
template <>
uint32_t tensor_pair<Tensor_f16>(float first, float second) { return float16(first).bits | uint32_t{float16(second).bits} << 16; }
template <>
uint32_t tensor_pair<Tensor_bf16>(float first, float second) { return bfloat16(first).bits | uint32_t{bfloat16(second).bits} << 16; }
#else
template <>
__device__ __forceinline__ uint32_t tensor_pair<Tensor_f16>(float first, float second) {
  uint32_t word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  return word;
}
template <>
__device__ __forceinline__ uint32_t tensor_pair<Tensor_bf16>(float first, float second) {
  uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  return word;
}
#endif
static __device__ __forceinline__ uint32_t tensor_single(float x) {
  uint32_t word;
  __builtin_memcpy(&word, &x, 4);
  return tensor_word<Tensor_tf32>(word);
}
// The left side of an instruction out of the sums of others: parts of 16 by 8 elements that lie side by side, two of them for pairs in
// a word. A thread has two neighbours of a row, where an instruction on single numbers takes those four apart: there its words mean
// columns 0 2 4 6 and 1 3 5 7, and the right side is read in that order.
template <class Kind>
struct TensorSums {
  static constexpr int parts = 2, apart = 4, step = 1;
  static __device__ __forceinline__ void words(uint32_t* a, const float* s) {
    for (int k = 0; k < 4; ++k) a[k] = tensor_pair<Kind>(s[2 * k], s[2 * k + 1]);
  }
};
template <>
struct TensorSums<Tensor_tf32> {
  static constexpr int parts = 1, apart = 1, step = 2;
  static __device__ __forceinline__ void words(uint32_t* a, const float* s) {
    a[0] = tensor_single(s[0]);
    a[1] = tensor_single(s[2]);
    a[2] = tensor_single(s[1]);
    a[3] = tensor_single(s[3]);
  }
};

// sums += rows * columns, where each warp has 16 rows, as sums of products before in its threads' registers.
template <class Kind, int across, int words, int stride, class Column>
static __device__ __forceinline__ void tensor_multiply_sums(float* sums, const float* rows, const Column* columns) {
  static_assert(words % 8 == 0, "whole instructions");
  typedef TensorSums<Kind> Sums;
  const unsigned lane = threadIdx.x % 32;
#pragma unroll
  for (int step = 0; step < words; step += 8) {
    uint32_t a[4];
    Sums::words(a, rows + step / 8 * Sums::parts * 4);
#pragma unroll
    for (int j = 0; j < across; ++j) {
      uint32_t b[2];
      const char* const at = reinterpret_cast<const char*>(columns) + 4 * ((j * 8 + lane / 4) * stride + step + lane % 4 * Sums::step);
      __builtin_memcpy(&b[0], at, 4);
      __builtin_memcpy(&b[1], at + 4 * Sums::apart, 4);
      Kind::multiply(sums + j * 4, a, b);
    }
  }
}

// sums += rows * columns: `rows` and `columns` are tiles in shared memory, a row (a column) every `stride` words, `words` of them
// taken, a multiple of 8. All threads of the block must call it.
template <class Kind, int warps_across, int down, int across, int words, int stride, class Row, class Column>
static __device__ __forceinline__ void tensor_multiply(typename Kind::Sum* sums, const Row* rows, const Column* columns) {
  static_assert(words % 8 == 0, "whole instructions");
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  auto word = [](const void* tile, unsigned row, unsigned at) {
    uint32_t value;
    __builtin_memcpy(&value, static_cast<const char*>(tile) + 4 * (row * stride + at), 4);
    return tensor_word<Kind>(value);
  };
#pragma unroll
  for (int step = 0; step < words; step += 8) {
    uint32_t a[down][4], b[across][2];
#pragma unroll
    for (int i = 0; i < down; ++i) {
      const unsigned row = (warp / warps_across * down + i) * 16 + lane / 4, at = step + lane % 4;
      a[i][0] = word(rows, row, at);
      a[i][1] = word(rows, row + 8, at);
      a[i][2] = word(rows, row, at + 4);
      a[i][3] = word(rows, row + 8, at + 4);
    }
#pragma unroll
    for (int j = 0; j < across; ++j) {
      const unsigned column = (warp % warps_across * across + j) * 8 + lane / 4, at = step + lane % 4;
      b[j][0] = word(columns, column, at);
      b[j][1] = word(columns, column, at + 4);
    }
#pragma unroll
    for (int i = 0; i < down; ++i)
#pragma unroll
      for (int j = 0; j < across; ++j) Kind::multiply(sums + (i * across + j) * 4, a[i], b[j]);
  }
}

}  // namespace METAC_RUNTIME_NAMESPACE
