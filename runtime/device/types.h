// Scalar types of kernels, without a system header.
#pragma once

// Redeclaring a typedef to the same type is allowed, so this lives with <cstdint> too.
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __SIZE_TYPE__ size_t;

// always_inline keeps one copy of nothing in the object files: kernels of different instruction sets never share code.
// On a GPU they are device functions too.
#ifdef METAC_SCALARS_ONLY
#define METAC_MEMBER __host__ __device__ __forceinline__
#define METAC_INLINE static __host__ __device__ __forceinline__ __attribute__((unused))
#else
#define METAC_MEMBER
#define METAC_INLINE static inline __attribute__((always_inline, unused))
#endif
#define METAC_RESTRICT __restrict__
#define METAC_LIKELY(x) __builtin_expect(!!(x), 1)

// Before a loop of a few iterations, all of which shall stand in a row.
#if defined(__clang__)
#define METAC_UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__) && !defined(__CUDACC__)
#define METAC_UNROLL _Pragma("GCC unroll 8")
#else
#define METAC_UNROLL
#endif

// No vector that was made before is in a register behind it: compilers keep constants of one loop there throughout its
// neighbour, which has better use for them.
#if defined(__AVX512F__)
#define METAC_EMPTY_REGISTERS                                                                                           \
  asm volatile("" ::                                                                                                    \
                   : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",  \
                     "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", \
                     "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31");
#elif defined(__x86_64__) && !defined(__CUDACC__)
#define METAC_EMPTY_REGISTERS                                                                                          \
  asm volatile("" ::                                                                                                   \
                   : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", \
                     "xmm12", "xmm13", "xmm14", "xmm15");
#else
#define METAC_EMPTY_REGISTERS
#endif

#if defined(__has_builtin)
#define METAC_HAS_BUILTIN(x) __has_builtin(x)
#else
#define METAC_HAS_BUILTIN(x) 0
#endif

// Vectors wider than the target's registers never cross a call (everything is inlined), so their ABI does not matter.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace METAC_RUNTIME_NAMESPACE {

// ---- half precision as storage ----
// A GPU has instructions for the conversions: the same numbers, and one NaN for all.
METAC_INLINE uint32_t float_bits(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  return bits;
}
METAC_INLINE float float_of_bits(uint32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, 4);
  return x;
}

METAC_INLINE float half_bits_to_float(uint16_t h) {
#ifdef __CUDA_ARCH__
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
  return x;
#else
  const uint32_t magnitude = static_cast<uint32_t>(h & 0x7fff) << 13;
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16;
  // Scaling by 2^112 moves the exponent from half's bias to float's and makes subnormals normal.
  uint32_t bits = float_bits(float_of_bits(magnitude) * float_of_bits(0x77800000u));
  if (magnitude >= 0x0f800000u) bits = magnitude | 0x7f800000u;
  return float_of_bits(bits | sign);
#endif
}

METAC_INLINE uint16_t float_to_half_bits(float x) {  // to nearest, ties to even
#ifdef __CUDA_ARCH__
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
#else
  const uint32_t bits = float_bits(x);
  const uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u)  // subnormal half: adding 0.5 leaves the rounded mantissa in the low bits
    return static_cast<uint16_t>(sign | (float_bits(float_of_bits(magnitude) + 0.5f) - 0x3f000000u));
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13));
#endif
}

METAC_INLINE float bfloat_bits_to_float(uint16_t b) { return float_of_bits(static_cast<uint32_t>(b) << 16); }

METAC_INLINE uint16_t float_to_bfloat_bits(float x) {
#ifdef __CUDA_ARCH__
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
#else
  const uint32_t bits = float_bits(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#endif
}

struct float16 {
  uint16_t bits;
  float16() = default;
  METAC_MEMBER explicit float16(float x) : bits(float_to_half_bits(x)) {}
  METAC_MEMBER operator float() const { return half_bits_to_float(bits); }
};

struct bfloat16 {
  uint16_t bits;
  bfloat16() = default;
  METAC_MEMBER explicit bfloat16(float x) : bits(float_to_bfloat_bits(x)) {}
  METAC_MEMBER operator float() const { return bfloat_bits_to_float(bits); }
};

// ---- what templates ask about types ----
template <bool condition, class T = int>
struct When {};
template <class T>
struct When<true, T> {
  typedef T type;
};
template <bool condition, class A, class B>
struct Choose {
  typedef A type;
};
template <class A, class B>
struct Choose<false, A, B> {
  typedef B type;
};
template <class A, class B>
struct Same {
  static constexpr bool value = false;
};
template <class A>
struct Same<A, A> {
  static constexpr bool value = true;
};

enum class Category { none, boolean, signed_integer, unsigned_integer, real, half };
template <class T>
struct CategoryOf {
  static constexpr Category value = Category::none;
};
#define METAC_CATEGORY(T, c)                       \
  template <>                                      \
  struct CategoryOf<T> {                           \
    static constexpr Category value = Category::c; \
  };
METAC_CATEGORY(bool, boolean)
METAC_CATEGORY(int8_t, signed_integer)
METAC_CATEGORY(int16_t, signed_integer)
METAC_CATEGORY(int32_t, signed_integer)
METAC_CATEGORY(int64_t, signed_integer)
METAC_CATEGORY(uint8_t, unsigned_integer)
METAC_CATEGORY(uint16_t, unsigned_integer)
METAC_CATEGORY(uint32_t, unsigned_integer)
METAC_CATEGORY(uint64_t, unsigned_integer)
METAC_CATEGORY(float, real)
METAC_CATEGORY(double, real)
METAC_CATEGORY(float16, half)
METAC_CATEGORY(bfloat16, half)
#undef METAC_CATEGORY

template <class T>
constexpr bool is_integer_type =
    CategoryOf<T>::value == Category::signed_integer || CategoryOf<T>::value == Category::unsigned_integer;
template <class T>
constexpr bool is_signed_type = CategoryOf<T>::value == Category::signed_integer;
template <class T>
constexpr bool is_real_type = CategoryOf<T>::value == Category::real;
template <class T>
constexpr bool is_half_type = CategoryOf<T>::value == Category::half;
template <class T>
constexpr bool is_bool_type = CategoryOf<T>::value == Category::boolean;
template <class T>
constexpr bool is_scalar_type = CategoryOf<T>::value != Category::none;

// The unsigned type in which arithmetic of T wraps without a promotion to int getting in the way.
template <class T>
struct WrapOf {
  typedef typename Choose<(sizeof(T) > 4), uint64_t, uint32_t>::type type;
};

template <class T>
METAC_MEMBER constexpr T least_of() {
  return is_signed_type<T> ? static_cast<T>(static_cast<uint64_t>(1) << (8 * sizeof(T) - 1)) : static_cast<T>(0);
}

}  // namespace METAC_RUNTIME_NAMESPACE
