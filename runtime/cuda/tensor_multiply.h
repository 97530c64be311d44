// Products of tiles on tensor cores. A warp has down * across parts of 16 by 8 elements, and a thread of it four sums of
// each: those in rows lane / 4 and lane / 4 + 8, columns lane % 4 * 2 and the next. Whatever the type, an instruction takes
// eight words of 4 bytes along the sum: a thread gives words lane % 4 and lane % 4 + 4 of rows lane / 4 and lane / 4 + 8 of
// the left tile, and of column lane / 4 of the right one (the PTX manual, "Matrix fragments for mma.m8n8k4 / m16n8k8 / k16 /
// k32").
//
// The order in which an instruction adds is the hardware's: the same from run to run, but not that of the CPU.
#pragma once

namespace METAC_RUNTIME_NAMESPACE {

#ifdef METAC_STANDS_IN_FOR_CUDA
#define METAC_TENSOR(name, type, constraint, shape, left, right, to, steps)                                              \
  struct Tensor_##name {                                                                                                 \
    typedef type Sum;                                                                                                    \
    typedef uint32_t Word;                                                                                               \
    static constexpr int per_word = steps;                                                                               \
    static void multiply(Sum* d, const uint32_t* a, const uint32_t* b) { shim_tensor_multiply(#left, #right, d, a, b); } \
  };
#else
#define METAC_TENSOR(name, type, constraint, shape, left, right, to, steps)                         \
  struct Tensor_##name {                                                                            \
    typedef type Sum;                                                                               \
    typedef uint32_t Word;                                                                          \
    static constexpr int per_word = steps;                                                          \
    static __device__ __forceinline__ void multiply(Sum* d, const uint32_t* a, const uint32_t* b) { \
      asm("mma.sync.aligned." #shape ".row.col." #to "." #left "." #right "." #to                   \
          " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                                  \
          : "+" constraint(d[0]), "+" constraint(d[1]), "+" constraint(d[2]), "+" constraint(d[3])  \
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                      \
    }                                                                                               \
  };
#endif
METAC_TENSOR(f16, float, "f", m16n8k16, f16, f16, f32, 2)
METAC_TENSOR(bf16, float, "f", m16n8k16, bf16, bf16, f32, 2)
METAC_TENSOR(tf32, float, "f", m16n8k8, tf32, tf32, f32, 1)
METAC_TENSOR(s8s8, int, "r", m16n8k32, s8, s8, s32, 4)
METAC_TENSOR(u8u8, int, "r", m16n8k32, u8, u8, s32, 4)
METAC_TENSOR(s8u8, int, "r", m16n8k32, s8, u8, s32, 4)
METAC_TENSOR(u8s8, int, "r", m16n8k32, u8, s8, s32, 4)
#undef METAC_TENSOR

// The instruction of 16 rows began with compute capability 9.0; before, there is one of 8 rows and 4 steps.
struct Tensor_f64 {
  typedef double Sum;
  typedef double Word;
  static constexpr int per_word = 1;
  static __device__ __forceinline__ void multiply(double* d, const double* a, const double* b) {
#ifdef METAC_STANDS_IN_FOR_CUDA
    shim_tensor_multiply_double(d, a, b);
#elif __CUDA_ARCH__ >= 900
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#else
#pragma unroll
    for (int k = 0; k < 4; ++k)  // steps 0 to 3 of both halves of the rows, then 4 to 7
      asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
          : "+d"(d[k % 2 * 2]), "+d"(d[k % 2 * 2 + 1])
          : "d"(a[k]), "d"(b[k / 2]));
#endif
  }
};

template <class Kind>
static __device__ __forceinline__ uint32_t tensor_word(uint32_t word) {
  return word;
}
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
uint32_t tensor_pair<Tensor_f16>(float first, float second) {
  return float16(first).bits | uint32_t{float16(second).bits} << 16;
}
template <>
uint32_t tensor_pair<Tensor_bf16>(float first, float second) {
  return bfloat16(first).bits | uint32_t{bfloat16(second).bits} << 16;
}
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
// Blocks of 8 rows of 16 bytes out of shared memory: lane k gives the address of row k % 8 of block k / 8, and a thread gets
// of each block word lane % 4 of row lane / 4. Transposed (elements of 2 bytes): elements lane % 4 * 2 and the next of
// column lane / 4.
template <int blocks, bool transposed>
static __device__ __forceinline__ void tensor_load(uint32_t* to, const void* row) {
  static_assert(blocks == 2 || blocks == 4, "what a side of an instruction takes");
#ifdef METAC_STANDS_IN_FOR_CUDA
  shim_tensor_load(to, blocks, transposed, row);
#else
  const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(row));
  if (blocks == 4 && transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[blocks - 2]), "=r"(to[blocks - 1])
                 : "r"(at));
  else if (blocks == 4)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[blocks - 2]), "=r"(to[blocks - 1])
                 : "r"(at));
  else if (transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(at));
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(at));
#endif
}

// A tile in shared memory, `stride` words of 4 bytes from row to row, the first a multiple of 16 bytes. Its rows (of the
// right side: its columns) are rows of the tile: what the sum runs along lies together.
template <int stride>
struct Lengthwise {
  static_assert(stride % 4 == 0, "rows begin at multiples of 16 bytes");
  const void* first;
  // Of an instruction: 16 rows from the given one on, words of the sum from `step` on.
  template <class Kind>
  __device__ __forceinline__ void left(typename Kind::Word* a, unsigned row, unsigned step) const {
    const unsigned lane = threadIdx.x % 32;
    if constexpr (sizeof(typename Kind::Word) == 4)
      load<Kind, 4>(a, row + lane % 16, step + lane / 16 * 4);
    else
      for (unsigned k = 0; k < 4; ++k) a[k] = wide(row + lane / 4 + k % 2 * 8, step + lane % 4 + k / 2 * 4);
  }
  template <class Kind>
  __device__ __forceinline__ void right(typename Kind::Word* b, unsigned column, unsigned step) const {
    const unsigned lane = threadIdx.x % 32;
    if constexpr (sizeof(typename Kind::Word) == 4)
      load<Kind, 2>(b, column + lane % 8, step + lane / 8 % 2 * 4);
    else
      for (unsigned k = 0; k < 2; ++k) b[k] = wide(column + lane / 4, step + lane % 4 + k * 4);
  }

 private:
  __device__ __forceinline__ double wide(unsigned row, unsigned step) const {
    return static_cast<const double*>(first)[row * (stride / 2) + step];
  }
  template <class Kind, int words>
  __device__ __forceinline__ void load(uint32_t* to, unsigned row, unsigned word) const {
    tensor_load<words, false>(to, static_cast<const char*>(first) + 4 * (row * stride + word));
#pragma unroll
    for (int k = 0; k < words; ++k) to[k] = tensor_word<Kind>(to[k]);
  }
};

// A tile whose rows are steps of the sum: elements of 2 bytes change places on the way into registers.
template <int stride>
struct Across {
  static_assert(stride % 4 == 0, "rows begin at multiples of 16 bytes");
  const void* first;
  template <class Kind>
  __device__ __forceinline__ void left(typename Kind::Word* a, unsigned row, unsigned step) const {
    const unsigned lane = threadIdx.x % 32;
    if constexpr (Kind::per_word == 2)
      tensor_load<4, true>(a, at(2 * step + lane / 16 * 8 + lane % 8, 2 * row + lane / 8 % 2 * 16));
    else
      for (unsigned k = 0; k < 4; ++k) a[k] = word<Kind>(step + lane % 4 + k / 2 * 4, row + lane / 4 + k % 2 * 8);
  }
  template <class Kind>
  __device__ __forceinline__ void right(typename Kind::Word* b, unsigned column, unsigned step) const {
    const unsigned lane = threadIdx.x % 32;
    if constexpr (Kind::per_word == 2)
      tensor_load<2, true>(b, at(2 * step + lane % 16, 2 * column));
    else
      for (unsigned k = 0; k < 2; ++k) b[k] = word<Kind>(step + lane % 4 + k * 4, column + lane / 4);
  }
  // An element of 4 or 8 bytes.
  template <class Kind>
  __device__ __forceinline__ typename Kind::Word word(unsigned step, unsigned column) const {
    static_assert(Kind::per_word == 1, "bytes lie lengthwise, pairs are loaded together");
    typename Kind::Word value;
    __builtin_memcpy(&value, at(step, sizeof value * column), sizeof value);
    if constexpr (sizeof value == 4)
      return tensor_word<Kind>(value);
    else
      return value;
  }

 private:
  __device__ __forceinline__ const char* at(unsigned step, unsigned byte) const {
    return static_cast<const char*>(first) + (4 * stride * step + byte);
  }
};

// The left side of an instruction out of the sums of others: parts of 16 by 8 elements that lie side by side, two of them
// for pairs in a word. A thread has two neighbours of a row, where an instruction on single numbers takes those four apart:
// there its words mean columns 0 2 4 6 and 1 3 5 7, and the right side is read in that order.
template <class Kind>
struct TensorSums {
  static constexpr int parts = 2;
  static __device__ __forceinline__ void left(uint32_t* a, const float* s) {
    for (int k = 0; k < 4; ++k) a[k] = tensor_pair<Kind>(s[2 * k], s[2 * k + 1]);
  }
  template <class Tile>
  static __device__ __forceinline__ void right(uint32_t* b, const Tile& tile, unsigned column, unsigned step) {
    tile.template right<Kind>(b, column, step);
  }
};
template <>
struct TensorSums<Tensor_tf32> {
  static constexpr int parts = 1;
  static __device__ __forceinline__ void left(uint32_t* a, const float* s) {
    a[0] = tensor_single(s[0]);
    a[1] = tensor_single(s[2]);
    a[2] = tensor_single(s[1]);
    a[3] = tensor_single(s[3]);
  }
  template <class Tile>
  static __device__ __forceinline__ void right(uint32_t* b, const Tile& tile, unsigned column, unsigned step) {
    const unsigned lane = threadIdx.x % 32;
    for (unsigned k = 0; k < 2; ++k) b[k] = tile.template word<Tensor_tf32>(step + lane % 4 * 2 + k, column + lane / 4);
  }
};

// sums += rows * columns, where each warp has 16 rows, as sums of products before in its threads' registers, and `columns`
// is a tile Across. All threads of the block must call it.
template <class Kind, int across, int words, class Columns>
static __device__ __forceinline__ void tensor_multiply_sums(float* sums, const float* rows, const Columns& columns) {
  static_assert(words % 8 == 0, "whole instructions");
  typedef TensorSums<Kind> Sums;
#pragma unroll
  for (int step = 0; step < words; step += 8) {
    uint32_t a[4];
    Sums::left(a, rows + step / 8 * Sums::parts * 4);
#pragma unroll
    for (int j = 0; j < across; ++j) {
      uint32_t b[2];
      Sums::right(b, columns, j * 8, step);
      Kind::multiply(sums + j * 4, a, b);
    }
  }
}

// sums += rows * columns of two tiles, `words` of the kind's along the sum, a multiple of 8. All threads of the block must
// call it.
template <class Kind, int warps_across, int down, int across, int words, class Rows, class Columns>
static __device__ __forceinline__ void tensor_multiply(typename Kind::Sum* sums, const Rows& rows, const Columns& columns) {
  static_assert(words % 8 == 0, "whole instructions");
  const unsigned warp = threadIdx.x / 32, row = warp / warps_across * down * 16, column = warp % warps_across * across * 8;
#pragma unroll
  for (int step = 0; step < words; step += 8) {
    typename Kind::Word a[down][4], b[across][2];
#pragma unroll
    for (int i = 0; i < down; ++i) rows.template left<Kind>(a[i], row + i * 16, step);
#pragma unroll
    for (int j = 0; j < across; ++j) columns.template right<Kind>(b[j], column + j * 8, step);
#pragma unroll
    for (int i = 0; i < down; ++i)
#pragma unroll
      for (int j = 0; j < across; ++j) Kind::multiply(sums + (i * across + j) * 4, a[i], b[j]);
  }
}

// Neighbouring threads exchange half of the sums of `parts` parts that lie side by side, two by two. Then each has four
// neighbours of a row, which are stored at once: sums[k * 8 + half * 4] and the next three are of part k * 2 + lane % 2, row
// lane / 4 + half * 8, columns lane % 4 / 2 * 4 and the next three. All threads of the warp must call it.
template <int parts, class T>
static __device__ __forceinline__ void tensor_rows_of_four(T* sums) {
  static_assert(parts % 2 == 0, "a thread keeps one part of two");
  const bool odd = threadIdx.x % 2 != 0;
#pragma unroll
  for (int k = 0; k < parts * 4; k += 8) {
    T kept[4], given[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      kept[j] = odd ? sums[k + j + 4] : sums[k + j];
      given[j] = __shfl_xor_sync(0xffffffffu, odd ? sums[k + j] : sums[k + j + 4], 1);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      sums[k + j / 2 * 4 + j % 2] = odd ? given[j] : kept[j];
      sums[k + j / 2 * 4 + j % 2 + 2] = odd ? kept[j] : given[j];
    }
  }
}

}  // namespace METAC_RUNTIME_NAMESPACE
