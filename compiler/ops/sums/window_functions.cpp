// HannWindow, HammingWindow, BlackmanWindow (opset 17): sums of cosines over the length of a window.
#include <numbers>

#include "compiler/ops/onnx_dtypes.h"
#include "compiler/ops/pointwise/arithmetic.h"
#include "compiler/ops/shape_operands.h"

namespace metac {
namespace {

// a0 - a1*cos(2*pi*n/N) + a2*cos(4*pi*n/N), with N the size, or the size less one where the window is symmetric.
LowerFunction window(double a0, double a1, double a2) {
  return [=](Lowering& n) {
    Graph& g = n.graph();
    int64_t number = n.integer("output_datatype", 1);
    auto dtype = dtype_of_onnx_number(number);
    if (!dtype || !is_float(*dtype)) fail("output_datatype ", number, " is no floating-point type");
    Expr size = index_element(g, reshape(g, n.input(0), {1}), 0, "size", 0, int64_t{1} << 40);
    Expr period = n.integer("periodic", 1) != 0 ? size : max(size - Expr(1), 1);
    Expr phase = float_constant(2 * std::numbers::pi, DType::f64) * (cast(axis(0), DType::f64) / cast(period, DType::f64));
    auto constant = [](double v) { return float_constant(v, DType::f64); };
    Expr value = constant(a0) - constant(a1) * call(Fn::cos, {phase});
    if (a2 != 0) value = value + constant(a2) * call(Fn::cos, {phase * constant(2)});
    n.set_output(0, fill(g, {size}, cast(value, *dtype)));
  };
}

METAC_OPERATOR("HannWindow")
    .since({17})
    .inputs(1)
    .outputs(1)
    .attribute("output_datatype", Attribute::Kind::integer)
    .attribute("periodic", Attribute::Kind::integer)
    .lower(window(0.5, 0.5, 0));
METAC_OPERATOR("HammingWindow")
    .since({17})
    .inputs(1)
    .outputs(1)
    .attribute("output_datatype", Attribute::Kind::integer)
    .attribute("periodic", Attribute::Kind::integer)
    .lower(window(25.0 / 46, 21.0 / 46, 0));
METAC_OPERATOR("BlackmanWindow")
    .since({17})
    .inputs(1)
    .outputs(1)
    .attribute("output_datatype", Attribute::Kind::integer)
    .attribute("periodic", Attribute::Kind::integer)
    .lower(window(0.42, 0.5, 0.08));

}  // namespace
}  // namespace metac
