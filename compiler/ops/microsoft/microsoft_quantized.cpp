// ONNX Runtime's operators on quantised operands (domain com.microsoft): dequantise, compute, quantise.
#include "compiler/ops/layers/pooling.h"
#include "compiler/ops/microsoft/microsoft_domain.h"
#include "compiler/ops/pointwise/activations.h"
#include "compiler/ops/quantized/quantization.h"
#include "compiler/ops/shape_operands.h"
#include "compiler/ops/sums/reductions.h"
#include "compiler/ops/sums/softmax.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

// The real values of quantised operand `i`; its scale and zero point (may be absent) follow it and are scalars.
Var* real_operand(Lowering& n, size_t i) {
  Graph& g = n.graph();
  Var *x = n.input(i), *zero_point = n.optional_input(i + 2);
  require_integer(x, concat("operand ", i));
  require_dtype(n.input(i + 1), DType::f32, concat("scale (operand ", i + 1, ")"));
  Var* scale = to_scalar(g, n.input(i + 1), concat("scale (operand ", i + 1, ")"));
  Var* whole = subtract_zero_point(g, x, scalar_zero_point(g, zero_point, concat("zero point (operand ", i + 2, ")")));
  return elementwise(g, {whole, scale}, [](const std::vector<Expr>& v) { return cast(v[0], DType::f32) * v[1]; });
}

// A float result quantised with the scale at operand `i` and the zero point behind it.
void set_quantised(Lowering& n, Var* y, size_t i) {
  Graph& g = n.graph();
  Var* zero_point = n.optional_input(i + 1);
  require_dtype(n.input(i), DType::f32, "the result's scale");
  DType to = zero_point ? zero_point->dtype() : n.input(0)->dtype();
  std::vector<Var*> operands{y, to_scalar(g, n.input(i), "the result's scale")};
  if (zero_point) operands.push_back(to_scalar(g, zero_point, "the result's zero point"));
  n.set_output(0, elementwise(g, operands, [&](const std::vector<Expr>& v) {
                 return saturate(v[0] / v[1], zero_point ? v[2] : Expr(), to);
               }));
}

LowerFunction binary(Fn fn) {
  return [fn](Lowering& n) { set_quantised(n, map(n.graph(), fn, real_operand(n, 0), real_operand(n, 3)), 6); };
}
METAC_OPERATOR("QLinearAdd", microsoft_domain).since({1}).inputs(7, 8).outputs(1).lower(binary(Fn::add));
METAC_OPERATOR("QLinearMul", microsoft_domain).since({1}).inputs(7, 8).outputs(1).lower(binary(Fn::mul));

METAC_OPERATOR("QLinearSigmoid", microsoft_domain).since({1}).inputs(4, 5).outputs(1).lower([](Lowering& n) {
  set_quantised(n, map(n.graph(), Fn::sigmoid, real_operand(n, 0)), 3);
});
METAC_OPERATOR("QLinearLeakyRelu", microsoft_domain)
    .since({1})
    .inputs(4, 5)
    .outputs(1)
    .attribute("alpha", Kind::real)
    .lower([](Lowering& n) {
      double alpha = n.real("alpha", 0.01);
      Var* y =
          elementwise(n.graph(), {real_operand(n, 0)}, [&](const std::vector<Expr>& v) { return leaky_relu(v[0], alpha); });
      set_quantised(n, y, 3);
    });
METAC_OPERATOR("QLinearGlobalAveragePool", microsoft_domain)
    .since({1})
    .inputs(5)
    .outputs(1)
    .attribute("channels_last", Kind::integer)
    .lower([](Lowering& n) {
      Var* x = real_operand(n, 0);
      require_rank_at_least(x, 3, "X");
      bool channels_last = n.integer("channels_last", 0) != 0;
      std::vector<int> axes = axes_from(channels_last ? 1 : 2, channels_last ? x->rank() - 1 : x->rank());
      set_quantised(n, mean(n.graph(), x, axes, true), 3);
    });

METAC_OPERATOR("QLinearAveragePool", microsoft_domain)
    .since({1})
    .inputs(4, 5)
    .outputs(1)
    .required("kernel_shape", Kind::integers)
    .attribute("pads", Kind::integers)
    .attribute("auto_pad", Kind::string)
    .attribute("strides", Kind::integers)
    .attribute("count_include_pad", Kind::integer)
    .attribute("ceil_mode", Kind::integer)
    .attribute("channels_last", Kind::integer)
    .lower([](Lowering& n) {
      Graph& g = n.graph();
      Var* x = real_operand(n, 0);
      require_rank_at_least(x, 3, "X");
      const bool last = n.integer("channels_last", 0) != 0;
      std::vector<int> to_first{0, x->rank() - 1}, to_last{0};
      for (int k = 1; k < x->rank(); ++k) {
        if (k < x->rank() - 1) to_first.push_back(k);
        to_last.push_back(k < x->rank() - 1 ? k + 1 : 1);
      }
      Var* y = average_windows(n, last ? transpose(g, x, to_first) : x);
      set_quantised(n, last ? transpose(g, y, to_last) : y, 3);
    });

// Inputs: the result's scale and zero point, then every part with its own.
METAC_OPERATOR("QLinearConcat", microsoft_domain)
    .since({1})
    .inputs(5, -1)
    .outputs(1)
    .required("axis", Kind::integer)
    .lower([](Lowering& n) {
      if (n.input_count() % 3 != 2)
        fail("parts come as tensor, scale and zero point; found ", n.input_count() - 2, " operands");
      std::vector<Var*> parts;
      for (size_t i = 2; i < n.input_count(); i += 3) parts.push_back(real_operand(n, i));
      Graph& g = n.graph();
      Var* y = concat(g, parts, check_axis(n.integer("axis", 0), parts[0]->rank()));
      Var *scale = to_scalar(g, n.input(0), "Y_scale"), *zero_point = to_scalar(g, n.input(1), "Y_zero_point");
      n.set_output(0, elementwise(g, {y, scale, zero_point}, [&](const std::vector<Expr>& v) {
                     return saturate(v[0] / v[1], v[2], zero_point->dtype());
                   }));
    });

METAC_OPERATOR("QLinearSoftmax", microsoft_domain)
    .since({1})
    .inputs(5)
    .outputs(1)
    .attribute("axis", Kind::integer)
    .attribute("opset", Kind::integer)
    .lower([](Lowering& n) {
      Var* x = real_operand(n, 0);
      require_rank_at_least(x, 1, "X");
      const int along = check_axis(n.integer("axis", -1), x->rank());
      if (n.integer("opset", 13) < 13 && along != x->rank() - 1)
        fail("axis ", along, " of rank ", x->rank(),
             ": before opset 13 Softmax goes over all axes from there on, which is not supported here");
      set_quantised(n, softmax(n.graph(), x, {along}), 3);
    });

// alpha * A * B + C, where C is int32 in units of alpha * a_scale * b_scale; b_scale and b_zero_point may be per column.
// Without y_scale the result is float.
METAC_OPERATOR("QGemm", microsoft_domain)
    .since({1})
    .inputs(6, 9)
    .outputs(1)
    .attribute("alpha", Kind::real)
    .attribute("transA", Kind::integer)
    .attribute("transB", Kind::integer)
    .lower([](Lowering& n) {
      Graph& g = n.graph();
      Var *a = n.input(0), *b = n.input(3), *c = n.optional_input(6);
      require_integer(a, "A");
      require_integer(b, "B");
      require_rank(a, 2, "A");
      require_rank(b, 2, "B");
      if (n.integer("transA", 0)) a = transpose(g, a, {1, 0});
      if (n.integer("transB", 0)) b = transpose(g, b, {1, 0});
      const Expr columns = b->shape()[1];
      Var* a_zero_point = scalar_zero_point(g, n.input(2), "a_zero_point");
      Var* b_zero_point = zero_point_along(g, n.input(5), 1, 2, columns, "b_zero_point");
      Var* sums = matmul(g, subtract_zero_point(g, a, a_zero_point), subtract_zero_point(g, b, b_zero_point));
      if (c) sums = map(g, Fn::add, sums, broadcast_to(g, c, sums->shape()));
      const double alpha = n.real("alpha", 1);
      Var* y =
          elementwise(g, {sums, to_scalar(g, n.input(1), "a_scale"), along_axis(g, n.input(4), 1, 2, columns, "b_scale")},
                      [&](const std::vector<Expr>& v) {
                        return cast(v[0], DType::f32) * (v[1] * v[2] * constant_of(DType::f32, alpha));
                      });
      if (n.optional_input(7))
        set_quantised(n, y, 7);
      else
        n.set_output(0, y);
    });

// A * B as floats: int32 sums times the scales, plus a bias.
METAC_OPERATOR("MatMulIntegerToFloat", microsoft_domain).since({1}).inputs(4, 7).outputs(1).lower([](Lowering& n) {
  Graph& g = n.graph();
  Var *a = n.input(0), *b = n.input(1), *a_zero_point = n.optional_input(4), *b_zero_point = n.optional_input(5),
      *bias = n.optional_input(6);
  require_integer(a, "A");
  require_integer(b, "B");
  require_rank_at_least(a, 2, "A");
  require_rank_at_least(b, 2, "B");
  a_zero_point = scalar_zero_point(g, a_zero_point, "a_zero_point");
  b_zero_point = zero_point_along(g, b_zero_point, b->rank() - 1, b->rank(), b->shape().back(), "b_zero_point");
  Var* sums = matmul(g, subtract_zero_point(g, a, a_zero_point), subtract_zero_point(g, b, b_zero_point));
  std::vector<Var*> operands{sums, to_scalar(g, n.input(2), "a_scale"),
                             along_axis(g, n.input(3), sums->rank() - 1, sums->rank(), sums->shape().back(), "b_scale")};
  if (bias) operands.push_back(broadcast_to(g, bias, sums->shape()));
  n.set_output(0, elementwise(g, operands, [&](const std::vector<Expr>& v) {
                 Expr value = cast(v[0], DType::f32) * (v[1] * v[2]);
                 return bias ? value + v[3] : value;
               }));
});

}  // namespace
}  // namespace metac
