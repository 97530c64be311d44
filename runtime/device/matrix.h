// Products of matrices of words in the processor's tile registers (Intel AMX): 16 rows of 64 bytes each. A tile of sums has
// a row for each point and 16 sums in it; to it are added the products of the points' words, up to 16 behind one another in
// memory, and of as many rows of 16 words. Elsewhere the same bits by loops.
//
// Of bfloat16 as Intel defines tdpbf16ps: the products of the lower halves of the words are added up one after the other
// from zero, those of the upper halves likewise, each exact before it is added and rounded to nearest, and then both to the
// sum; denormal operands, sums and results are zeros.
#pragma once
#include "dot.h"

namespace METAC_RUNTIME_NAMESPACE {

#if defined(__AMX_TILE__) && defined(__AMX_INT8__) && defined(__AMX_BF16__) && !defined(METAC_SCALARS_ONLY)
#define METAC_HAS_MATRIX_TILES
#endif

#define METAC_OF_TILES inline __attribute__((always_inline))

namespace detail {

// Rows of tile `part` of `points`, which are one tile up to 16, else two that are as even as can be.
constexpr int tiles_of(int points) { return (points + 15) / 16; }
constexpr int rows_of(int points, int part) {
  const int even = (points + tiles_of(points) - 1) / tiles_of(points);
  return part + 1 < tiles_of(points) ? even : points - part * even;
}

// What ldtilecfg takes. Registers: 0 to 3 sums, a row of them for each tile of points; 4 and 5 points; 6 and 7 packed words.
struct alignas(64) MatrixShape {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
template <int points, int vectors, int words>
constexpr MatrixShape matrix_shape() {
  MatrixShape shape;
  for (int part = 0; part < tiles_of(points); ++part) {
    for (int v = 0; v < vectors; ++v) {
      shape.row_bytes[part * vectors + v] = 64;
      shape.rows[part * vectors + v] = static_cast<uint8_t>(rows_of(points, part));
    }
    shape.row_bytes[4 + part] = 4 * words;
    shape.rows[4 + part] = static_cast<uint8_t>(rows_of(points, part));
  }
  for (int v = 0; v < vectors; ++v) shape.row_bytes[6 + v] = 64, shape.rows[6 + v] = words;
  return shape;
}
template <int points, int vectors, int words>
inline constexpr MatrixShape matrix_shape_of = matrix_shape<points, vectors, words>();

// A step of products, of the instruction's kind.
struct UnsignedBySigned {
  typedef int32_t sum;
  static METAC_OF_TILES void add(int32_t& to, const int32_t* a, const int32_t* b, int64_t b_step, int words) {
    for (int w = 0; w < words; ++w) to = dot_u8s8(a[w], b[w * b_step], to);
  }
};
struct SignedByUnsigned {
  typedef int32_t sum;
  static METAC_OF_TILES void add(int32_t& to, const int32_t* a, const int32_t* b, int64_t b_step, int words) {
    for (int w = 0; w < words; ++w) to = dot_s8u8(a[w], b[w * b_step], to);
  }
};
struct OfHalves {
  typedef float sum;
  static METAC_OF_TILES void add(float& to, const int32_t* a, const int32_t* b, int64_t b_step, int words) {
    float low = 0, high = 0;
    for (int w = 0; w < words; ++w) {
      low = without_denormals(fma(bfloat16_of<0>(a[w]), bfloat16_of<0>(b[w * b_step]), low));
      high = without_denormals(fma(bfloat16_of<1>(a[w]), bfloat16_of<1>(b[w * b_step]), high));
    }
    to = without_denormals(without_denormals(to) + without_denormals(low + high));
  }
};

}  // namespace detail

// The tile registers of a worker while it is in a kernel: up to 32 points by one or two vectors of 16 sums. `points`,
// `vectors` and `words` are those of `clear` in all that follows it.
class MatrixTiles {
 public:
  MatrixTiles() {}
  MatrixTiles(const MatrixTiles&) = delete;
  MatrixTiles& operator=(const MatrixTiles&) = delete;
#ifdef METAC_HAS_MATRIX_TILES
  ~MatrixTiles() {
    if (shape_) __asm__ volatile("tilerelease" ::: "memory");
  }

  // All sums are 0.
  template <int points, int vectors, int words>
  METAC_OF_TILES void clear() {
    take_shape(detail::matrix_shape_of<points, vectors, words>);
    constexpr int sums = detail::tiles_of(points) * vectors;
    zero<0>();
    if constexpr (sums > 1) zero<1>();
    if constexpr (sums > 2) zero<2>(), zero<3>();
  }

  // The sums that `take` left.
  template <int points, int vectors, int words, class T>
  METAC_OF_TILES void resume(const T* sums) {
    take_shape(detail::matrix_shape_of<points, vectors, words>);
    constexpr int parts = detail::tiles_of(points), first = detail::rows_of(points, 0);
    load<0>(sums, 64 * vectors);
    if constexpr (vectors > 1) load<1>(sums + 16, 64 * vectors);
    if constexpr (parts > 1) load<vectors>(sums + first * vectors * 16, 64 * vectors);
    if constexpr (parts > 1 && vectors > 1) load<vectors + 1>(sums + first * vectors * 16 + 16, 64 * vectors);
  }

  // a: the first point's first word, `a_step` bytes before the next point's; b: the first word of 16 * vectors, `b_step`
  // bytes before those of the next step.
  template <class Product, int points, int vectors, int words>
  METAC_OF_TILES void multiply(const void* a, int64_t a_step, const void* b, int64_t b_step) {
    constexpr int parts = detail::tiles_of(points);
    const char* const packed = static_cast<const char*>(b);
    const char* const data = static_cast<const char*>(a);
    load<4>(data, a_step);
    load<6>(packed, b_step);
    dot<0, 4, 6>(Product());
    if constexpr (vectors > 1) {
      load<7>(packed + 64, b_step);
      dot<1, 4, 7>(Product());
    }
    if constexpr (parts > 1) {
      load<5>(data + detail::rows_of(points, 0) * a_step, a_step);
      dot<vectors, 5, 6>(Product());
      if constexpr (vectors > 1) dot<vectors + 1, 5, 7>(Product());
    }
  }

  // The sums of point p and vector v stand at (p * vectors + v) * 16.
  template <int points, int vectors, int words, class T>
  METAC_OF_TILES void take(T* sums) const {
    constexpr int parts = detail::tiles_of(points), first = detail::rows_of(points, 0);
    store<0>(sums, 64 * vectors);
    if constexpr (vectors > 1) store<1>(sums + 16, 64 * vectors);
    if constexpr (parts > 1) store<vectors>(sums + first * vectors * 16, 64 * vectors);
    if constexpr (parts > 1 && vectors > 1) store<vectors + 1>(sums + first * vectors * 16 + 16, 64 * vectors);
  }

 private:
  METAC_OF_TILES void take_shape(const detail::MatrixShape& shape) {
    if (shape_ == &shape) return;
    __asm__ volatile("ldtilecfg %0" ::"m"(shape));
    shape_ = &shape;
  }
  template <int tile>
  static METAC_OF_TILES void zero() {
    __asm__ volatile("tilezero %%tmm%c0" ::"i"(tile));
  }
  template <int tile>
  static METAC_OF_TILES void load(const void* p, int64_t step) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(step), "i"(tile) : "memory");
  }
  template <int tile>
  static METAC_OF_TILES void store(void* p, int64_t step) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(p), "r"(step), "i"(tile) : "memory");
  }
  template <int to, int a, int b>
  static METAC_OF_TILES void dot(detail::UnsignedBySigned) {
    __asm__ volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(to), "i"(a), "i"(b));
  }
  template <int to, int a, int b>
  static METAC_OF_TILES void dot(detail::SignedByUnsigned) {
    __asm__ volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(to), "i"(a), "i"(b));
  }
  template <int to, int a, int b>
  static METAC_OF_TILES void dot(detail::OfHalves) {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(to), "i"(a), "i"(b));
  }

  const detail::MatrixShape* shape_ = nullptr;
#else
  template <int points, int vectors, int words>
  METAC_OF_TILES void clear() {
    for (int k = 0; k < points * vectors * 16; ++k) sums_[k] = 0;
  }
  template <int points, int vectors, int words, class T>
  void resume(const T* sums) {
    __builtin_memcpy(sums_, sums, sizeof(T) * points * vectors * 16);
  }
  template <class Product, int points, int vectors, int words>
  void multiply(const void* a, int64_t a_step, const void* b, int64_t b_step) {
    typedef typename Product::sum Sum;
    for (int p = 0; p < points; ++p) {
      int32_t of_point[words];
      __builtin_memcpy(of_point, static_cast<const char*>(a) + p * a_step, sizeof(of_point));
      for (int k = 0; k < 16 * vectors; ++k) {
        int32_t& place = sums_[p * 16 * vectors + k];
        Sum sum;
        __builtin_memcpy(&sum, &place, 4);
        Product::add(sum, of_point, static_cast<const int32_t*>(b) + k, b_step / 4, words);
        __builtin_memcpy(&place, &sum, 4);
      }
    }
  }
  template <int points, int vectors, int words, class T>
  void take(T* sums) const {
    __builtin_memcpy(sums, sums_, sizeof(T) * points * vectors * 16);
  }

 private:
  int32_t sums_[32 * 2 * 16];
#endif
};
#undef METAC_OF_TILES

}  // namespace METAC_RUNTIME_NAMESPACE
