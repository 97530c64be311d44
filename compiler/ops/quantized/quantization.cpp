#include "compiler/ops/quantized/quantization.h"

#include <algorithm>

#include "compiler/ops/onnx_dtypes.h"
#include "compiler/ops/shape_operands.h"

namespace metac {

Var* subtract_zero_point(Graph& g, Var* x, Var* zero_point) {
  if (!zero_point) return cast(g, x, DType::i32);
  return elementwise(g, {x, zero_point},
                     [](const std::vector<Expr>& v) { return cast(v[0], DType::i32) - cast(v[1], DType::i32); });
}

Var* without_repetition(Graph& g, Var* zero_point) {
  if (!zero_point || !is_integer(zero_point->dtype())) return zero_point;
  std::optional<std::vector<double>> known = known_numbers(zero_point);
  if (!known || known->empty() || std::any_of(known->begin(), known->end(), [&](double z) { return z != (*known)[0]; }))
    return zero_point;
  return (*known)[0] == 0 ? nullptr : scalar(g, zero_point->dtype(), (*known)[0]);
}

IntegerLimits integer_range(DType integers) { return {min_value(integers), static_cast<int64_t>(max_value(integers))}; }

Expr clamped(Expr value, Expr zero_point, IntegerLimits range) {
  Expr shifted = call(Fn::rint, {value});
  if (zero_point) shifted = shifted + cast(zero_point, value->dtype);
  Expr low = constant_like(value, static_cast<double>(range.low)),
       high = constant_like(value, static_cast<double>(range.high));
  return min(max(shifted, low), high);
}

Expr saturate(Expr value, Expr zero_point, DType to) { return cast(clamped(value, zero_point, integer_range(to)), to); }

Expr dequantised(Expr quantised, Expr scale, Expr zero_point, DType to) {
  const DType wide = arithmetic_dtype(to);
  Expr whole = cast(quantised, DType::i32);
  if (zero_point) whole = whole - cast(zero_point, DType::i32);
  return cast(cast(whole, wide) * cast(scale, wide), to);
}

Var* along_axis(Graph& g, Var* v, int axis_of_result, int rank, Expr extent, std::string_view what) {
  if (v->rank() == 0 || element_count(v->shape()).is_int(1)) return to_scalar(g, v, what);
  if (v->rank() != 1) fail(what, " must be a scalar or have one axis, its shape is ", to_string(v->shape()));
  if (!v->shape()[0].if_int() && v->shape()[0] != extent) {  // one for all, or one each: the run shows which
    Expr one = equal(v->shape()[0], Expr(1));
    g.require(logical_or(one, equal(v->shape()[0], extent)),
              concat("length of ", what, " against the axis that it quantises"));
    v = g.reindex({v}, {extent}, {select(one, Expr(0), axis(0))});
  }
  require_equal(g, v->shape()[0], extent, concat("length of ", what, " against the axis that it quantises"));
  std::vector<int> trailing;
  for (int i = axis_of_result + 1; i < rank; ++i) trailing.push_back(i - axis_of_result);
  return unsqueeze(g, v, trailing);
}

Var* spread_zero_point(Graph& g, Var* zero_point, const std::function<Var*()>& spread) {
  if (!zero_point) return nullptr;
  Var *spread_out = spread(), *simple = without_repetition(g, zero_point);
  return simple == zero_point ? spread_out : simple;
}

Var* scalar_zero_point(Graph& g, Var* zero_point, std::string_view what) {
  return spread_zero_point(g, zero_point, [&] { return to_scalar(g, zero_point, what); });
}

Var* zero_point_along(Graph& g, Var* zero_point, int axis, int rank, Expr extent, std::string_view what) {
  return spread_zero_point(g, zero_point, [&] { return along_axis(g, zero_point, axis, rank, extent, what); });
}

Var* requantise(Graph& g, Var* accumulator, Var* a_scale, Var* b_scale, Var* y_scale, Var* y_zero_point, DType to) {
  std::vector<Var*> operands{accumulator, a_scale, b_scale, y_scale};
  if (y_zero_point) operands.push_back(y_zero_point);
  return elementwise(g, operands, [&](const std::vector<Expr>& v) {
    auto real = [](Expr e) { return cast(e, DType::f32); };
    Expr value = real(v[0]) * (real(v[1]) * real(v[2]) / real(v[3]));
    return saturate(value, y_zero_point ? v[4] : Expr(), to);
  });
}

// 255 steps.
DynamicQuantization quantize_dynamically(Graph& g, Var* x) {
  std::vector<int> axes;
  for (int k = 0; k < x->rank(); ++k) axes.push_back(k);
  Expr zero = float_constant(0, DType::f32), one = float_constant(1, DType::f32), steps = float_constant(255, DType::f32);
  Var *least = reduce(g, x, axes, Reduce::min, false), *greatest = reduce(g, x, axes, Reduce::max, false);
  least = elementwise(g, {least}, [&](const std::vector<Expr>& v) { return min(v[0], zero); });
  Var* scale = elementwise(g, {least, greatest}, [&](const std::vector<Expr>& v) {
    Expr range = max(v[1], zero) - v[0];
    return select(equal(range, zero), one, range) / steps;
  });
  Var* zero_point =
      elementwise(g, {least, scale}, [&](const std::vector<Expr>& v) { return saturate(-v[0] / v[1], {}, DType::u8); });
  Var* value = elementwise(g, {x, scale, zero_point},
                           [](const std::vector<Expr>& v) { return saturate(v[0] / v[1], v[2], DType::u8); });
  return {value, scale, zero_point};
}

Var* spread_over(Lowering& n, Var* x, Var* v, std::string_view what) {
  Graph& g = n.graph();
  int64_t block = n.integer("block_size", 0);
  if (block < 0) fail("block_size must not be negative, found ", block);
  if (v->rank() == 0 || (v->rank() == 1 && v->shape()[0].is_int(1))) return to_scalar(g, v, what);
  int at = check_axis(n.integer("axis", 1), x->rank());
  if (block == 0) return along_axis(g, v, at, x->rank(), x->shape()[at], what);
  if (v->rank() != x->rank())
    fail(what, " of shape ", to_string(v->shape()), " must have as many axes as the operand of shape ",
         to_string(x->shape()));
  std::vector<Expr> indices = identity_indices(x->rank());
  indices[at] = floor_div(axis(at), block);
  for (int k = 0; k < x->rank(); ++k) {
    Expr expected = k == at ? ceil_div(x->shape()[k], block) : x->shape()[k];
    require_equal(g, v->shape()[k], expected,
                  concat(what, " of shape ", to_string(v->shape()), " against ", to_string(x->shape()), " in blocks of ",
                         block, " along axis ", at));
  }
  return g.reindex({v}, x->shape(), indices);
}

void check_zero_point(const Var* scale, const Var* zero_point) {
  if (zero_point && zero_point->rank() != scale->rank() &&
      !(element_count(zero_point->shape()).is_int(1) && element_count(scale->shape()).is_int(1)))
    fail("the zero point of shape ", to_string(zero_point->shape()), " must have the shape of the scale, ",
         to_string(scale->shape()));
}

namespace {

using Kind = Attribute::Kind;

void lower_quantize(Lowering& n) {
  Graph& g = n.graph();
  Var *x = n.input(0), *scale = n.input(1), *zero_point = n.optional_input(2);
  require_numeric(x, "x");
  require_float(scale, "y_scale");
  DType to = zero_point ? zero_point->dtype() : DType::u8;
  if (int64_t stated = n.integer("output_dtype", 0)) {
    DType dtype = require_onnx_dtype(stated, "output_dtype");
    if (zero_point && dtype != to) fail("output_dtype ", name_of(dtype), " and the zero point's ", name_of(to), " differ");
    to = dtype;
  }
  if (!is_integer(to) || size_of(to) > 2) fail("cannot quantise to ", name_of(to));
  check_zero_point(scale, zero_point);
  std::vector<Var*> operands{x, spread_over(n, x, scale, "y_scale")};
  zero_point = spread_zero_point(g, zero_point, [&] { return spread_over(n, x, zero_point, "y_zero_point"); });
  if (zero_point) operands.push_back(zero_point);
  DType wide = x->dtype() == DType::f64 || scale->dtype() == DType::f64 ? DType::f64 : DType::f32;
  if (int64_t precision = n.integer("precision", 0)) wide = arithmetic_dtype(require_onnx_dtype(precision, "precision"));
  n.set_output(0, elementwise(g, operands, [&](const std::vector<Expr>& v) {
                 return saturate(cast(v[0], wide) / cast(v[1], wide), zero_point ? v[2] : Expr(), to);
               }));
}
METAC_OPERATOR("QuantizeLinear")
    .since({10, 13, 19, 21, 23, 24, 25, 28})
    .inputs(2, 3)
    .outputs(1)
    .attribute("axis", Kind::integer, 13)
    .attribute("saturate", Kind::integer, 19)
    .attribute("block_size", Kind::integer, 21)
    .attribute("output_dtype", Kind::integer, 21)
    .attribute("precision", Kind::integer, 23)
    .lower(lower_quantize);

void lower_dequantize(Lowering& n) {
  Graph& g = n.graph();
  Var *x = n.input(0), *scale = n.input(1), *zero_point = n.optional_input(2);
  require_integer(x, "x");
  require_float(scale, "x_scale");
  if (zero_point) require_same_dtype(x, zero_point, "x", "x_zero_point");
  check_zero_point(scale, zero_point);
  DType to = scale->dtype();
  if (int64_t stated = n.integer("output_dtype", 0)) to = require_onnx_dtype(stated, "output_dtype");
  if (!is_float(to)) fail("cannot dequantise to ", name_of(to));
  std::vector<Var*> operands{x, spread_over(n, x, scale, "x_scale")};
  zero_point = spread_zero_point(g, zero_point, [&] { return spread_over(n, x, zero_point, "x_zero_point"); });
  if (zero_point) operands.push_back(zero_point);
  n.set_output(0, elementwise(g, operands, [&](const std::vector<Expr>& v) {
                 return dequantised(v[0], v[1], zero_point ? v[2] : Expr(), to);
               }));
}
METAC_OPERATOR("DequantizeLinear")
    .since({10, 13, 19, 21, 23, 24, 25, 28})
    .inputs(2, 3)
    .outputs(1)
    .attribute("axis", Kind::integer, 13)
    .attribute("block_size", Kind::integer, 21)
    .attribute("output_dtype", Kind::integer, 23)
    .lower(lower_dequantize);

// ONNX Runtime's quantiser writes these where ONNX's own had no 16 bits yet.
METAC_OPERATOR("QuantizeLinear", "com.microsoft")
    .since({1})
    .inputs(2, 3)
    .outputs(1)
    .attribute("axis", Kind::integer)
    .lower(lower_quantize);
METAC_OPERATOR("DequantizeLinear", "com.microsoft")
    .since({1})
    .inputs(2, 3)
    .outputs(1)
    .attribute("axis", Kind::integer)
    .lower(lower_dequantize);

METAC_OPERATOR("DynamicQuantizeLinear").since({11}).inputs(1).outputs(3).lower([](Lowering& n) {
  Var* x = n.input(0);
  if (x->dtype() != DType::f32) fail("x must be float32, found ", name_of(x->dtype()));
  DynamicQuantization q = quantize_dynamically(n.graph(), x);
  n.set_output(0, q.value);
  n.set_output(1, q.scale);
  n.set_output(2, q.zero_point);
});

}  // namespace
}  // namespace metac
