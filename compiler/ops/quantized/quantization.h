// Affine quantisation: real = (quantised - zero_point) * scale, per tensor, per axis or per block.
#pragma once
#include <functional>

#include "compiler/ops/pointwise/arithmetic.h"

namespace metac {

// Int32 of x minus the zero point; `zero_point` (null: 0) broadcasts to x.
Var* subtract_zero_point(Graph& g, Var* x, Var* zero_point);
// A zero point that is known: null where all of it is 0, one number where all elements are equal; else as it is. Zero points
// are structure, as axes are: a model with others is another model.
Var* without_repetition(Graph& g, Var* zero_point);
// A scale or zero point per tensor (one element), or per element of `axis` of a result of `rank` axes.
Var* along_axis(Graph& g, Var* v, int axis, int rank, Expr extent, std::string_view what);
// As without_repetition(); else what `spread` makes of it so that it broadcasts. Its repetition shows in the operand alone,
// not in what is made of it.
Var* spread_zero_point(Graph& g, Var* zero_point, const std::function<Var*()>& spread);
Var* scalar_zero_point(Graph& g, Var* zero_point, std::string_view what);
Var* zero_point_along(Graph& g, Var* zero_point, int axis, int rank, Expr extent, std::string_view what);
// A scale or zero point as a tensor that broadcasts to x: one element, one per element of the node's attribute `axis` (1),
// or one per block of `block_size` elements along it.
Var* spread_over(Lowering& n, Var* x, Var* v, std::string_view what);
void check_zero_point(const Var* scale, const Var* zero_point);

struct IntegerLimits {
  int64_t low, high;
};
IntegerLimits integer_range(DType integers);
// rint(value) + zero_point (null: 0) in the range, as a float, for a float `value`.
Expr clamped(Expr value, Expr zero_point, IntegerLimits range);
// The same as an integer of that type.
Expr saturate(Expr value, Expr zero_point, DType to);
// (quantised - zero_point) * scale, an element of DequantizeLinear.
Expr dequantised(Expr quantised, Expr scale, Expr zero_point, DType to);
// uint8 by the range of x (float32), widened to hold 0: DynamicQuantizeLinear. scale and zero_point have rank 0.
struct DynamicQuantization {
  Var *value, *scale, *zero_point;
};
DynamicQuantization quantize_dynamically(Graph& g, Var* x);
// saturate(rint(accumulator * a_scale * b_scale / y_scale) + y_zero_point): scales and zero point broadcast.
Var* requantise(Graph& g, Var* accumulator, Var* a_scale, Var* b_scale, Var* y_scale, Var* y_zero_point, DType to);

}  // namespace metac
