// DFT (opsets 17, 19, 20) and STFT (17) as sums of products with a table of cosines and sines, hence contractions.
//
//   out[k, c'] = sum over n, c of in[n, c] * table[n, c, k, c']        c: real and imaginary part
//
// The phase 2*pi*(n*k mod L)/L is reduced with integers, so that long transforms keep their accuracy.
#include <numbers>

#include "compiler/ops/axis_set.h"
#include "compiler/ops/pointwise/arithmetic.h"
#include "compiler/ops/shape_operands.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

// Where terms cancel, an exact 0 stands against the rounding of whoever made the expected values: 2e-7 in ONNX's own cases.
constexpr double fourier_atol = 1e-6;

// [terms, parts in, frequencies, parts out]. half_spectrum: the terms are the first half of a spectrum whose other half
// mirrors it (inverse, one-sided).
Var* fourier_table(Graph& g, DType dtype, const Shape& shape, Expr length, bool inverse, bool half_spectrum) {
  Expr turns = cast(floor_mod(axis(0) * axis(2), length), DType::f64) / cast(length, DType::f64);
  Expr phase = float_constant(2 * std::numbers::pi, DType::f64) * turns;
  Expr cosine = call(Fn::cos, {phase}), sine = call(Fn::sin, {phase});
  if (!inverse) sine = float_constant(0, DType::f64) - sine;
  Expr value =
      select(equal(axis(1), axis(3)), cosine, select(equal(axis(1), 0), sine, float_constant(0, DType::f64) - sine));
  if (inverse) value = value / cast(length, DType::f64);
  if (half_spectrum) {
    Expr alone = logical_or(equal(axis(0), 0), equal(axis(0) * Expr(2), length));
    value = select(alone, value, value * float_constant(2, DType::f64));
  }
  return fill(g, shape, cast(value, dtype));
}

// Along `along` of x [..., n, ..., 1 or 2].
Var* transform(Graph& g, Var* x, int along, Expr length, bool inverse, bool onesided) {
  int rank = x->rank();
  Shape out = x->shape();
  Expr terms = min(x->shape()[static_cast<size_t>(along)], onesided && inverse ? floor_div(length, 2) + Expr(1) : length),
       parts = out.back();
  out[static_cast<size_t>(along)] = onesided && !inverse ? floor_div(length, 2) + Expr(1) : length;
  out.back() = onesided && inverse ? 1 : 2;
  Var* table = fourier_table(g, x->dtype(), {terms, parts, out[static_cast<size_t>(along)], out.back()}, length, inverse,
                             onesided && inverse);
  Shape domain = out;
  domain.push_back(terms);
  domain.push_back(parts);
  std::vector<Expr> source = identity_indices(rank);
  source[static_cast<size_t>(along)] = axis(rank);
  source.back() = axis(rank + 1);
  Var* signal = g.reindex({x}, domain, source);
  Var* factors = g.reindex({table}, domain, {axis(rank), axis(rank + 1), axis(along), axis(rank - 1)});
  return reduce(g, map(g, Fn::mul, signal, factors), {rank, rank + 1}, Reduce::add, false);
}

void require_signal(Var* x, const char* what) {
  require_float(x, what);
  require_rank_at_least(x, 3, what);
  const int64_t* parts = x->shape().back().if_int();
  if (parts && *parts != 1 && *parts != 2)
    fail("the last dim of ", what, " holds real and imaginary parts, it must be 1 or 2, found ", *parts);
}

Expr scalar_operand(Lowering& n, size_t index, const char* what, int64_t min) {
  Var* v = n.optional_input(index);
  return v ? index_element(n.graph(), reshape(n.graph(), v, {1}), 0, what, min, int64_t{1} << 40) : Expr();
}

void lower_dft(Lowering& n) {
  Graph& g = n.graph();
  Var* x = n.input(0);
  require_signal(x, "input");
  AxisSet along({n.opset() < 20 ? n.integer("axis", 1) : -2}, x->rank());
  if (n.opset() >= 20 && n.optional_input(2)) along = AxisSet(g, reshape(g, n.input(2), {1}), x->rank(), "axis");
  if (along.number(0).is_int(x->rank() - 1)) fail("axis ", x->rank() - 1, " is the one of real and imaginary parts");
  g.require(not_equal(along.number(0), Expr(x->rank() - 1)), "DFT: the last axis is the one of real and imaginary parts");
  bool inverse = n.integer("inverse", 0) != 0, onesided = n.integer("onesided", 0) != 0;
  if (onesided && !inverse)
    require_equal(g, x->shape().back(), 1, "a one-sided transform is of real values; parts of the input");
  if (onesided && inverse)
    require_equal(g, x->shape().back(), 2, "a one-sided inverse transform is of complex values; parts of the input");
  // An axis that only the run knows goes before the parts.
  Var* moved = widen(g, x);
  std::vector<int> parts_last = all_axes(x->rank() + 1);
  std::swap(parts_last[static_cast<size_t>(x->rank())], parts_last[static_cast<size_t>(x->rank() - 1)]);
  if (!along.known()) moved = transpose(g, axis_to_last(g, moved, along), parts_last);
  int at = along.known() ? along.values()[0] : x->rank() - 1;
  Expr length = scalar_operand(n, 1, "dft_length", 1), extent = moved->shape()[static_cast<size_t>(at)];
  if (!length) length = onesided && inverse ? (extent - Expr(1)) * Expr(2) : extent;
  Var* y = transform(g, moved, at, length, inverse, onesided);
  if (!along.known()) y = axis_from_last(g, transpose(g, y, parts_last), along);
  n.set_output(0, cast(g, y, x->dtype()));
}

// signal [batch, length, 1 or 2] -> [batch, frames, frequencies, 2]. PyTorch's exporter writes real signals as [batch,
// length], and ONNX Runtime takes them.
void lower_stft(Lowering& n) {
  Graph& g = n.graph();
  Var *x = n.input(0), *window = n.optional_input(2);
  if (x->rank() == 2) x = g.reindex({x}, {x->shape()[0], x->shape()[1], Expr(1)}, {axis(0), axis(1)});
  require_signal(x, "signal");
  require_rank(x, 3, "signal");
  if (!n.optional_input(1)) fail("frame_step must be given");
  Expr step = scalar_operand(n, 1, "frame_step", 1), length = scalar_operand(n, 3, "frame_length", 1);
  if (window) require_rank(window, 1, "window");
  if (!length && !window) fail("frame_length or window must be given");
  if (!length) length = window->shape()[0];
  if (window) require_equal(g, window->shape()[0], length, "length of window against frame_length");
  bool onesided = n.integer("onesided", 1) != 0;
  if (onesided) require_equal(g, x->shape()[2], 1, "a one-sided transform is of real values; parts of the signal");
  g.require(length <= x->shape()[1],
            concat("a frame of ", to_string(length), " does not fit into a signal of ", to_string(x->shape()[1])));
  Shape frames{x->shape()[0], floor_div(x->shape()[1] - length, step) + Expr(1), length, x->shape()[2]};
  Var* cut = g.reindex({widen(g, x)}, frames, {axis(0), axis(1) * step + axis(2), axis(3)});
  if (window) cut = map(g, Fn::mul, cut, g.reindex({widen(g, window)}, frames, {axis(2)}));
  n.set_output(0, cast(g, transform(g, cut, 2, length, false, onesided), x->dtype()));
}

METAC_OPERATOR("DFT")
    .since({17, 19, 20})
    .inputs(1, 3)
    .outputs(1)
    .attribute("axis", Kind::integer, 17, 20)
    .attribute("inverse", Kind::integer)
    .attribute("onesided", Kind::integer)
    .cancels(fourier_atol)
    .lower(lower_dft);
METAC_OPERATOR("STFT")
    .since({17})
    .inputs(2, 4)
    .outputs(1)
    .attribute("onesided", Kind::integer)
    .cancels(fourier_atol)
    .lower(lower_stft);

}  // namespace
}  // namespace metac
