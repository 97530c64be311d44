// CausalConvWithState: a depthwise convolution over time that sees the present and the past, carried from call to call.
#include "compiler/ops/layers/convolution.h"
#include "compiler/ops/pointwise/activations.h"
#include "compiler/ops/pointwise/arithmetic.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

void lower_causal_convolution(Lowering& n) {
  Graph& g = n.graph();
  Var *x = n.input(0), *w = n.input(1), *bias = n.optional_input(2), *past = n.optional_input(3);
  require_float(x, "input");
  require_same_dtype(x, w, "input", "weight");
  require_rank(x, 3, "input");
  require_rank(w, 3, "weight");
  std::string activation = n.string("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    fail("activation must be none, silu or swish, found ", quoted(activation));
  Dim channels = w->shape()[0];
  require_equal(g, x->shape()[1], channels,
                concat("channels of input ", to_string(x->shape()), " and weight ", to_string(w->shape())));
  require_equal(g, w->shape()[1], 1, concat("middle axis of weight ", to_string(w->shape())));
  Expr kept = w->shape()[2] - Expr(1);
  Shape state{x->shape()[0], x->shape()[1], kept};
  if (past) {
    require_rank(past, 3, "past_state");
    for (int k = 0; k < 3; ++k)
      require_equal(g, past->shape()[k], state[k],
                    concat("past_state ", to_string(past->shape()), " against ", to_string(state)));
  } else {
    past = fill(g, state, constant_of(x->dtype(), 0));
  }
  Var* whole = concat(g, {past, x}, 2);
  Window window;
  window.in = whole->shape()[2];
  window.kernel = w->shape()[2];
  window.out = x->shape()[2];
  Var* y = convolve(g, widen(g, whole), widen(g, w), {window}, channels);
  if (bias) {
    require_rank(bias, 1, "bias");
    y = map(g, Fn::add, y, per_channel(g, widen(g, bias), 3));
  }
  if (activation != "none") y = elementwise(g, {y}, [](const std::vector<Expr>& v) { return swish(v[0], 1); });
  n.set_output(0, cast(g, y, x->dtype()));
  n.set_output(1, slice(g, whole, {2}, {x->shape()[2]}, {kept}, {1}));
}

METAC_OPERATOR("CausalConvWithState")
    .since({27})
    .inputs(2, 4)
    .outputs(2)
    .attribute("activation", Kind::string)
    .lower(lower_causal_convolution);

}  // namespace
}  // namespace metac
