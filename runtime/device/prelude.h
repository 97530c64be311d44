// Everything that the text of a CPU kernel may use. It includes no system header, so that the in-process compiler reads it
// in milliseconds, and it builds under g++ 11, clang 14 and newer for x86-64, x86-64-v3 (AVX2, FMA), x86-64-v4 (AVX-512)
// and, by generic code, for other machines. Compile with -ffp-contract=off: a fused multiply-add happens where fma() is
// written and nowhere else.
//
// Conventions
//  scalars   bool, int8_t ... uint64_t, float, double, float16, bfloat16 (the last two are storage: arithmetic on them
//            computes in float and rounds once).
//  vectors   f32x4 f32x8 f32x16 f64x2 ... i8xN i16xN i32xN i64xN u8xN ... for N = 2, 4, 8, 16, 32, 64: GCC vector
//            extensions, so + - * / < == & | v[i] work as they stand. Vec<T, N> is the same type by lane and count; lanes
//            of bool, float16 and bfloat16 are held in u8xN (0 or 1) and u16xN (their bits). A vector wider than the
//            machine's is legal and split by the compiler.
//  masks     what comparisons of vectors yield: a signed integer vector, lane -1 or 0. lt(a, b), is_nan(v), ... give bool
//            for scalars and masks for vectors; select(mask, then, otherwise) takes either. to_bool(mask) is u8xN of 0/1,
//            to_mask<V>(u8xN) the mask for V's lanes; a mask meets values of another lane width through select.
//  functions every F(name) of compiler/ir/scalar_functions.def under that name, overloaded for all of the above. Of two
//            equal formulas one is used: float lane == scalar float, bit for bit.
//            min/max: a NaN in either argument wins; with a constant, write it FIRST (max(zero, x) is one instruction).
//            Integer division and shifts never trap; +, -, * wrap (use add(), sub(), mul() for signed scalars: the plain
//            operators on them are undefined where they overflow).
//  casts     cast_to<T>(x), cast_to<Vec>(v): float to integer truncates; what does not fit becomes the least value of
//            int32 (int64 for 64-bit and uint32 targets), then wraps to narrower types; to bool is != 0.
//  memory    load<V>(p), store(p, v): any alignment. load_first<V>(p, n), store_first(p, v, n): only n lanes are touched,
//            the others read as 0. load_strided<V, step>(p): every step-th element. gather<V>(p, index_vector);
//            look_up<V>(table, bytes) of a table of 256 bytes.
//            load_f32<V>(p) reads float, float16, bfloat16 or an integer type and converts to float lanes.
//  making    broadcast<V>(x), zero<V>(), iota<V>() = {0, 1, 2, ...}, lanes<V>(), low(v), high(v), join(low, high).
//  reduce    reduce_add / mul / min / max(v): halves combined pairwise, (v[i] + v[i + n/2]) until one lane is left: the
//            same order everywhere. any(mask), all(mask).
//  fma       fma(a, b, c): a * b + c, rounded once where the machine has FMA, else twice; scalars and vectors alike.
//  words     dot_u8s8(a, b, sum), dot_s8u8, dot_i16: int32 words of four bytes or two int16, multiplied and added up;
//            pairs_s8u8(a, b), pairs_s8s8: words of two int16, each two products; add_i16(a, b), sum_i16(a) of such words;
//            dot_bf16(a, b, sum) of two bfloat16 and a sum of float; bf16_word(a, b): two floats so rounded in a word;
//            load_word(p), load_words<V>(p) read them from memory of narrower elements.
//  matrices  MatrixTiles: products of words in tile registers (AMX), matrix.h.
//  errors    float: + - * / sqrt fma are exact to half a ULP; exp log tanh sigmoid erf sin cos tan pow expm1 log1p atan
//            and their kin stay within 4 ULP (tests/runtime/device_math_test.cpp walks them densely; most are within 2).
//            double: what libm gives.
#pragma once
#ifndef METAC_RUNTIME_NAMESPACE
#define METAC_RUNTIME_NAMESPACE metac_runtime
#endif

#include "types.h"
// (order matters)
#include "scalar.h"
// scalar first: vectors fall back on it
#include "dot.h"
#include "look_up.h"
#include "matrix.h"
#include "math.h"
#include "math_f32.h"
#include "math_wide.h"
#include "transpose.h"
#include "vector.h"
#include "vector_memory.h"
#include "vector_x86.h"

#ifndef METAC_PRELUDE_NO_USING
using namespace METAC_RUNTIME_NAMESPACE;
#endif
