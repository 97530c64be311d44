// fake_quantize: QuantizeLinear and DequantizeLinear behind it as one element-wise op, with the derivative that networks are
// trained with: y = (clamp(rint(x / s) + z, low, high) - z) * s, its values those of the two. It takes the place of such a
// pair in models of training (compiler/train/forms/straight_through.h); elsewhere the pair keeps rint's derivative, 0.
//
//   x: the straight-through estimator (Bengio et al., arXiv:1308.3432, section 4; Jacob et al., arXiv:1712.05877): dy where
//      rint(x / s) + z lies in [low, high], else 0
//   s: 0; with `scale_gradient` that of learned step sizes (LSQ, Esser et al., arXiv:1902.08153, equation 3) times
//      `scale_gradient`: dy (rint(x / s) - x / s) within the range, dy (low - z) below and dy (high - z) above
//   z: none
//
// x and s are both float32 or both float64; z is of an integer type, absent: 0. axis and block_size as of QuantizeLinear.
#include "compiler/ir/builders.h"
#include "compiler/ops/defined/given_gradient.h"
#include "compiler/ops/quantized/quantization.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

void lower_fake_quantize(Lowering& n) {
  Graph& g = n.graph();
  Var *x = n.input(0), *scale = n.input(1), *zero_point = n.optional_input(2);
  require_same_dtype(x, scale, "x", "scale");
  if (x->dtype() != DType::f32 && x->dtype() != DType::f64)
    fail("x must be float32 or float64, found ", name_of(x->dtype()));
  if (zero_point) require_integer(zero_point, "zero_point");
  check_zero_point(scale, zero_point);
  const IntegerLimits range{n.integer("low", 0), n.integer("high", 0)};
  if (range.low >= range.high) fail("low is ", range.low, ", and high is ", range.high, ", not above it");

  std::vector<Var*> operands{x, spread_over(n, x, scale, "scale")};
  zero_point = spread_zero_point(g, zero_point, [&] { return spread_over(n, x, zero_point, "zero_point"); });
  if (zero_point) operands.push_back(zero_point);
  std::vector<Expr> elements;
  for (size_t k = 0; k < operands.size(); ++k) {
    operands[k] = broadcast_to(g, operands[k], x->shape());
    elements.push_back(load(static_cast<int>(k), operands[k]->dtype(), identity_indices(x->rank())));
  }
  const Expr z = zero_point ? elements[2] : Expr();
  Var* out = g.elementwise(operands, x->shape(),
                           dequantised(clamped(elements[0] / elements[1], z, range), elements[1], z, x->dtype()));

  const std::string offset = zero_point ? concat(name_of(x->dtype()), "(z)") : "0.0",
                    integer = "r = x / s; q = rint(r) + " + offset + "; ";
  const double scale_gradient = n.real("scale_gradient", 0);
  GivenGradient given;
  given.parameters = {"x", "s"};
  given.formulas = {integer + "low <= q && q <= high ? dy : 0", "0"};
  if (scale_gradient > 0)
    given.formulas[1] =
        integer + "dy * gain * (q < low ? low - " + offset + " : q > high ? high - " + offset + " : rint(r) - r)";
  if (zero_point) given.parameters.push_back("z"), given.formulas.push_back("");
  given.constants = {"low", "high", "gain"};
  given.numbers = {static_cast<double>(range.low), static_cast<double>(range.high), scale_gradient};
  set_given_gradient(*out->producer, given);
  n.set_output(0, out);
}

METAC_OPERATOR("fake_quantize", "metac")
    .since({1})
    .inputs(2, 3)
    .outputs(1)
    .required("low", Kind::integer)
    .required("high", Kind::integer)
    .attribute("axis", Kind::integer)
    .attribute("block_size", Kind::integer)
    .attribute("scale_gradient", Kind::real)
    .lower(lower_fake_quantize);

}  // namespace
}  // namespace metac
