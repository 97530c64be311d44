// What every scalar function of the Expr language means, as numbers: the reference that printed code is tested against.
//
// A float of any width travels as a double that is already rounded to its dtype; an integer of any width as an int64
// that is already wrapped to it (uint64: the same bits); a bool as 0 or 1. Computing + - * / sqrt of float32 in double
// and rounding gives exactly the float32 result (53 >= 2 * 24 + 2), so one code path serves all float dtypes; float16
// and bfloat16 are computed in float32 and then rounded. Nothing traps: see compiler/ir/scalar_functions.def.
#pragma once
#include <functional>

#include "compiler/ir/expr.h"

namespace metac {

union Scalar {
  double real;
  int64_t integer;
};

inline Scalar real_scalar(double value) { return Scalar{.real = value}; }
inline Scalar integer_scalar(int64_t value) { return Scalar{.integer = value}; }

int64_t wrap_to(DType dtype, int64_t value);  // integers and bool (keeps the lowest bits; bool: != 0)
// Float to int truncates, through int32 (uint32 and 64-bit integers: int64), whose least value stands for NaN and all
// that does not fit, and then wraps: what runtime/device/scalar.h does. Int to bool is != 0.
Scalar convert(Scalar value, DType from, DType to);

// A value per lane; step 0: the same one for all lanes.
struct Lanes {
  const Scalar* values = nullptr;
  int step = 1;
  Scalar operator[](int i) const { return values[i * step]; }
};

// out[i] = fn(a[i], b[i], c[i]) for i < n; `dtype` is that of the arguments (select: of the last two).
void apply_lanes(Fn fn, DType dtype, Lanes a, Lanes b, Lanes c, Scalar* out, int n);
void convert_lanes(Lanes values, DType from, DType to, Scalar* out, int n);
// One application. The result is of dtype_of(fn, dtype).
Scalar apply(Fn fn, DType dtype, Scalar a, Scalar b = {}, Scalar c = {});
// The dtype that a call's arguments are computed in.
DType operand_dtype(const ExprNode& call);

// Reads element `indices` of operand `operand`; gets the number of indices with the load node.
using LoadElement = std::function<Scalar(const ExprNode& load, const int64_t* indices)>;

// The value of one expression; every distinct node is computed once. `axes` and `symbols` are indexed by id.
Scalar evaluate_scalar(Expr e, const int64_t* axes, const int64_t* symbols, const LoadElement& load = {});
// Of an integer expression without loads and axes: dims, extents, conditions on symbols.
int64_t evaluate_dim(Expr e, const int64_t* symbols);

}  // namespace metac
