// ConvInteger, QLinearConv, MatMulInteger, QLinearMatMul: zero points are subtracted before the windows or rows are
// made (so padding means 0), sums are int32.
#include "compiler/ops/layers/convolution.h"
#include "compiler/ops/quantized/quantization.h"
#include "compiler/ops/shape_operands.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

void require_eight_bits(const Var* v, std::string_view what) {
  if (v->dtype() != DType::u8 && v->dtype() != DType::i8) fail(what, " must be int8 or uint8, found ", name_of(v->dtype()));
}

// The int32 convolution of x and w less their zero points.
Var* convolve_integers(Lowering& n, Var* x, Var* x_zero_point, Var* w, Var* w_zero_point, Var* bias) {
  Graph& g = n.graph();
  require_eight_bits(x, "x");
  require_eight_bits(w, "w");
  int64_t groups = check_convolution(n, x, w, bias);
  std::vector<Window> windows = plan_windows(n, g, spatial_dims(x->shape()), spatial_dims(w->shape()));
  x_zero_point = scalar_zero_point(g, x_zero_point, "x_zero_point");
  w_zero_point = zero_point_along(g, w_zero_point, 0, w->rank(), w->shape()[0], "w_zero_point");
  Var* y = convolve(g, subtract_zero_point(g, x, x_zero_point), subtract_zero_point(g, w, w_zero_point), windows, groups);
  return bias ? map(g, Fn::add, y, per_channel(g, bias, y->rank())) : y;
}

void lower_conv_integer(Lowering& n) {
  n.set_output(0, convolve_integers(n, n.input(0), n.optional_input(2), n.input(1), n.optional_input(3), nullptr));
}

void lower_qlinear_conv(Lowering& n) {
  Graph& g = n.graph();
  Var* bias = n.optional_input(8);
  if (bias && bias->dtype() != DType::i32) fail("B must be int32, found ", name_of(bias->dtype()));
  Var* sums = convolve_integers(n, n.input(0), n.input(2), n.input(3), n.input(5), bias);
  Var* zero_point = n.input(7);
  require_eight_bits(zero_point, "y_zero_point");
  Var* w_scale = along_axis(g, n.input(4), 1, sums->rank(), sums->shape()[1], "w_scale");
  n.set_output(0, requantise(g, sums, to_scalar(g, n.input(1), "x_scale"), w_scale, to_scalar(g, n.input(6), "y_scale"),
                             to_scalar(g, zero_point, "y_zero_point"), zero_point->dtype()));
}

// Scales and zero points of a matrix: one for all, or one per row (left operand) or column (right one), also as a tensor
// of the operand's rank.
Var* per_line(Graph& g, Var* v, Var* matrix, bool rows, std::string_view what) {
  if (element_count(v->shape()).is_int(1)) return to_scalar(g, v, what);
  if (v->rank() != 1 || matrix->rank() == 1) return v;
  int rank = matrix->rank();
  return along_axis(g, v, rows ? rank - 2 : rank - 1, rank, matrix->shape()[rows ? rank - 2 : rank - 1], what);
}

Var* multiply_integers(Graph& g, Var* a, Var* a_zero_point, Var* b, Var* b_zero_point) {
  require_eight_bits(a, "A");
  require_eight_bits(b, "B");
  require_rank_at_least(a, 1, "A");
  require_rank_at_least(b, 1, "B");
  a_zero_point = spread_zero_point(g, a_zero_point, [&] { return per_line(g, a_zero_point, a, true, "a_zero_point"); });
  b_zero_point = spread_zero_point(g, b_zero_point, [&] { return per_line(g, b_zero_point, b, false, "b_zero_point"); });
  return matmul(g, subtract_zero_point(g, a, a_zero_point), subtract_zero_point(g, b, b_zero_point));
}

void lower_matmul_integer(Lowering& n) {
  n.set_output(0, multiply_integers(n.graph(), n.input(0), n.optional_input(2), n.input(1), n.optional_input(3)));
}

void lower_qlinear_matmul(Lowering& n) {
  Graph& g = n.graph();
  Var *a = n.input(0), *b = n.input(3), *zero_point = n.input(7);
  Var* sums = multiply_integers(g, a, n.input(2), b, n.input(5));
  n.set_output(0, requantise(g, sums, per_line(g, n.input(1), a, true, "a_scale"),
                             per_line(g, n.input(4), b, false, "b_scale"), per_line(g, n.input(6), sums, true, "y_scale"),
                             per_line(g, zero_point, sums, true, "y_zero_point"), zero_point->dtype()));
}

METAC_OPERATOR("ConvInteger")
    .since({10})
    .inputs(2, 4)
    .outputs(1)
    .attribute("group", Kind::integer)
    .attribute("pads", Kind::integers)
    .attribute("auto_pad", Kind::string)
    .attribute("strides", Kind::integers)
    .attribute("dilations", Kind::integers)
    .attribute("kernel_shape", Kind::integers)
    .lower(lower_conv_integer);
METAC_OPERATOR("QLinearConv")
    .since({10})
    .inputs(8, 9)
    .outputs(1)
    .attribute("group", Kind::integer)
    .attribute("pads", Kind::integers)
    .attribute("auto_pad", Kind::string)
    .attribute("strides", Kind::integers)
    .attribute("dilations", Kind::integers)
    .attribute("kernel_shape", Kind::integers)
    .lower(lower_qlinear_conv);
METAC_OPERATOR("MatMulInteger").since({10}).inputs(2, 4).outputs(1).lower(lower_matmul_integer);
METAC_OPERATOR("QLinearMatMul").since({10, 21}).inputs(8).outputs(1).lower(lower_qlinear_matmul);

}  // namespace
}  // namespace metac
