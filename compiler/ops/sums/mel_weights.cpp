// MelWeightMatrix (opset 17): triangles over the bins of a spectrum, evenly spaced on the mel scale.
#include <cmath>

#include "compiler/ops/onnx_dtypes.h"
#include "compiler/ops/pointwise/arithmetic.h"
#include "compiler/ops/shape_operands.h"

namespace metac {
namespace {

Expr real(double value) { return float_constant(value, DType::f64); }

// hertz -> mel: 2595 * log10(1 + f / 700)
Expr mel_of(Expr hertz) { return real(2595 / std::log(10.0)) * call(Fn::log1p, {hertz / real(700)}); }
Expr hertz_of(Expr mel) { return real(700) * call(Fn::expm1, {mel * real(std::log(10.0) / 2595)}); }

METAC_OPERATOR("MelWeightMatrix")
    .since({17})
    .inputs(5)
    .outputs(1)
    .attribute("output_datatype", Attribute::Kind::integer)
    .lower([](Lowering& n) {
      Graph& g = n.graph();
      DType to = require_onnx_dtype(n.integer("output_datatype", 1), "output_datatype");
      if (!is_float(to)) fail("output_datatype ", name_of(to), " is no floating-point type");
      Expr triangles = index_scalar(g, n.input(0), "num_mel_bins", 0, int64_t{1} << 40),
           length = index_scalar(g, n.input(1), "dft_length", 0, int64_t{1} << 40);
      std::vector<Var*> scalars;
      for (size_t k = 2; k < 5; ++k)
        scalars.push_back(to_scalar(g, n.input(k),
                                    k == 2   ? "sample_rate"
                                    : k == 3 ? "lower_edge_hertz"
                                             : "upper_edge_hertz"));
      auto number = [&](int k) { return cast(load(k, scalars[k]->dtype(), {}), DType::f64); };
      Expr rate = number(0), low = mel_of(number(1)), high = mel_of(number(2));
      // The bins of the triangles' corners: corner k of num_mel_bins + 2.
      Expr corner = hertz_of(cast(axis(0), DType::f64) * ((high - low) / cast(triangles + Expr(2), DType::f64)) + low);
      Expr bin = cast(call(Fn::floor, {cast(length + Expr(1), DType::f64) * corner / rate}), DType::i64);
      Var* bins = g.elementwise(scalars, {triangles + Expr(2)}, bin);
      bins->stop_fuse = true;
      auto bin_at = [&](int k) { return load(0, DType::i64, {axis(1) + Expr(k)}); };
      Expr left = bin_at(0), centre = bin_at(1), right = bin_at(2), j = axis(0);
      auto ratio = [](Expr a, Expr b) { return cast(a, DType::f64) / cast(b, DType::f64); };
      Expr rising = select(equal(left, centre), select(equal(j, centre), real(1), real(0)),
                           select(logical_and(left <= j, j <= centre), ratio(j - left, centre - left), real(0)));
      Expr value = select(logical_and(centre <= j, j < right), ratio(right - j, right - centre), rising);
      n.set_output(0, g.elementwise({bins}, {floor_div(length, 2) + Expr(1), triangles}, cast(value, to)));
    });

}  // namespace
}  // namespace metac
