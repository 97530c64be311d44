// The LSTM of ONNX Runtime with 8-bit weights (domain com.microsoft): X once, and H before every step, are quantised to
// uint8 by their own ranges, as DynamicQuantizeLinear does, and multiplied as integers; all else is the LSTM in float.
#include "compiler/ops/layers/recurrent.h"
#include "compiler/ops/quantized/quantization.h"
#include "compiler/ops/sums/reductions.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

// W [directions, inputs, 4H] or R [directions, H, 4H] of 8 bits, a scale and a zero point per direction [directions] or per
// column [directions, 4H].
struct QuantizedWeights {
  Var *value, *scale, *zero_point;

  void check(Graph& g, const char* what) const {
    require_integer(value, what);
    require_rank(value, 3, what);
    require_dtype(scale, DType::f32, "a scale");
    require_integer(zero_point, "a zero point");
    for (Var* v : {scale, zero_point}) {
      if (v->rank() < 1 || v->rank() > 2)
        fail("scales and zero points must have one or two axes, found ", to_string(v->shape()));
      require_equal(g, v->shape()[0], value->shape()[0], "scales and zero points against the directions");
      if (v->rank() == 2 && !v->shape()[1].is_int(1))
        require_equal(g, v->shape()[1], value->shape()[2], "scales and zero points against the columns");
    }
  }
  // One direction's scale or zero point, which broadcasts to rows of columns.
  static Var* of_direction(Graph& g, Var* v, int direction) {
    if (v->rank() == 1) return g.reindex({v}, {}, {direction});
    return g.reindex({v}, {v->shape()[1]}, {direction, axis(0)});
  }
  // rows [..., inputs or H] times one direction's weights: [..., 4H].
  Var* product(Graph& g, Var* rows, int direction) const {
    DynamicQuantization q = quantize_dynamically(g, rows);
    Var* weights = g.reindex({value}, {value->shape()[1], value->shape()[2]}, {direction, axis(0), axis(1)});
    Var* zero = without_repetition(g, zero_point);
    if (zero && zero->rank() > 0) zero = of_direction(g, zero, direction);
    Var* sums = matmul(g, subtract_zero_point(g, q.value, q.zero_point), subtract_zero_point(g, weights, zero));
    return elementwise(g, {sums, q.scale, of_direction(g, scale, direction)},
                       [](const std::vector<Expr>& v) { return cast(v[0], DType::f32) * (v[1] * v[2]); });
  }
};

// X, 0 from the time on at which all sequences have ended: what is there takes no part in the range of X.
Var* without_ended(Graph& g, Var* x, Var* lengths) {
  require_integer(lengths, "sequence_lens");
  require_rank(lengths, 1, "sequence_lens");
  require_rank(x, 3, "X");
  Var* longest = reduce(g, lengths, {0}, Reduce::max, false);
  return g.reindex({x, longest}, x->shape(), identity_indices(3),
                   {axis(0) < cast(load(1, longest->dtype(), {}), DType::i64)});
}

METAC_OPERATOR("DynamicQuantizeLSTM", "com.microsoft")
    .since({1})
    .inputs(12)
    .outputs(0, 3)
    .attribute("clip", Kind::real)
    .attribute("activation_alpha", Kind::reals)
    .attribute("activation_beta", Kind::reals)
    .attribute("activations", Kind::strings)
    .attribute("hidden_size", Kind::integer)
    .attribute("direction", Kind::string)
    .attribute("input_forget", Kind::integer)
    .lower([](Lowering& n) {
      Graph& g = n.graph();
      RecurrentCell cell = lstm_cell(n);
      RecurrentOperands operands = recurrent_operands(n, cell);
      QuantizedWeights w{operands.w, n.input(8), n.input(9)}, r{operands.r, n.input(10), n.input(11)};
      require_dtype(operands.x, DType::f32, "X");
      w.check(g, "W");
      r.check(g, "R");
      auto turned = [&](Var* v) {  // what the shapes of LSTM's own weights are
        return g.reindex({v}, {v->shape()[0], v->shape()[2], v->shape()[1]}, {axis(0), axis(2), axis(1)});
      };
      operands.w = turned(w.value);
      operands.r = turned(r.value);
      operands.zero_when_ended = true;
      if (operands.lengths) operands.x = without_ended(g, operands.x, operands.lengths);
      operands.product = [&](Var* rows, bool of_state, int direction) {
        return (of_state ? r : w).product(g, rows, direction);
      };
      lower_recurrent(n, cell, operands);
    });

}  // namespace
}  // namespace metac
