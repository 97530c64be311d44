// DeformConv (two spatial axes): every tap of the kernel reads the operand at an offset of its own, between pixels by
// bilinear interpolation, scaled by a mask; then an ordinary contraction with the weights.
#include "compiler/ops/layers/convolution.h"
#include "compiler/ops/pointwise/arithmetic.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

void lower_deformable_convolution(Lowering& n) {
  Graph& g = n.graph();
  Var *x = n.input(0), *w = n.input(1), *offset = n.input(2), *bias = n.optional_input(3), *mask = n.optional_input(4);
  DType dtype = x->dtype();
  require_float(x, "X");
  require_same_dtype(x, w, "X", "W");
  require_rank(x, 4, "X");
  require_rank(offset, 4, "offset");
  int64_t groups = check_convolution(n, x, w, bias), offset_groups = n.integer("offset_group", 1);
  if (offset_groups < 1) fail("offset_group must be at least 1, found ", offset_groups);
  Dim batch = x->shape()[0], channels = x->shape()[1], outputs = w->shape()[0], inputs = w->shape()[1];
  g.require(equal(floor_mod(channels, offset_groups), 0),
            concat("offset_group ", offset_groups, " must divide the ", to_string(channels), " channels"));
  std::vector<Window> windows = plan_windows(n, g, spatial_dims(x->shape()), spatial_dims(w->shape()));
  Dim kh = windows[0].kernel, kw = windows[1].kernel, oh = windows[0].out, ow = windows[1].out;
  auto check = [&](Var* v, const Shape& shape, const char* what) {
    require_rank(v, 4, what);
    for (int k = 0; k < 4; ++k)
      require_equal(g, v->shape()[k], shape[k], concat(what, " ", to_string(v->shape()), " against ", to_string(shape)));
  };
  check(offset, {batch, Expr(2 * offset_groups) * kh * kw, oh, ow}, "offset");
  if (mask) check(mask, {batch, Expr(offset_groups) * kh * kw, oh, ow}, "mask");

  // Where each tap reads, over [N, offset group, OH, OW, KH, KW]; `part` 0: vertical, 1: horizontal.
  Var *wide = widen(g, x), *wide_offset = widen(g, offset);
  DType real = wide->dtype();
  Shape taps{batch, offset_groups, oh, ow, kh, kw};
  Expr tap = (axis(1) * kh + axis(4)) * kw + axis(5);
  auto coordinate = [&](int part) {
    Expr start = windows[part].source(axis(2 + part), axis(4 + part));
    return g.elementwise({wide_offset}, taps,
                         cast(start, real) + load(0, real, {axis(0), tap * Expr(2) + Expr(part), axis(2), axis(3)}));
  };
  Var *vertical = coordinate(0), *horizontal = coordinate(1);

  // The four pixels around it, over [N, C, OH, OW, KH, KW]; outside the operand is 0.
  Shape samples{batch, channels, oh, ow, kh, kw};
  Expr per_group = floor_div(channels, offset_groups);
  std::vector<Expr> at{axis(0), floor_div(axis(1), per_group), axis(2), axis(3), axis(4), axis(5)};
  std::vector<Var*> operands;
  for (int corner = 0; corner < 4; ++corner) {
    Expr i = cast(call(Fn::floor, {load(1, real, at)}), DType::i64) + Expr(corner / 2);
    Expr j = cast(call(Fn::floor, {load(2, real, at)}), DType::i64) + Expr(corner % 2);
    operands.push_back(g.reindex({wide, vertical, horizontal}, samples, {axis(0), axis(1), i, j},
                                 {Expr(0) <= i, i < windows[0].in, Expr(0) <= j, j < windows[1].in}));
  }
  operands.push_back(vertical);
  operands.push_back(horizontal);
  if (mask) operands.push_back(widen(g, mask));
  auto corner = [&](int k) { return load(k, real, identity_indices(6)); };
  Expr y = load(4, real, at), z = load(5, real, at), one = constant_of(real, 1);
  Expr dy = y - call(Fn::floor, {y}), dz = z - call(Fn::floor, {z});
  Expr value = (corner(0) * (one - dz) + corner(1) * dz) * (one - dy) + (corner(2) * (one - dz) + corner(3) * dz) * dy;
  if (mask) value = value * load(6, real, {axis(0), (at[1] * kh + axis(4)) * kw + axis(5), axis(2), axis(3)});
  Var* sampled = g.elementwise(operands, samples, value);

  // [N, groups, O/groups, OH, OW, C/groups, KH, KW]
  Dim group_outputs = floor_div(outputs, groups);
  Shape domain{batch, groups, group_outputs, oh, ow, inputs, kh, kw};
  Var* xx = g.reindex({sampled}, domain, {axis(0), axis(1) * inputs + axis(5), axis(3), axis(4), axis(6), axis(7)});
  Var* ww = g.reindex({widen(g, w)}, domain, {axis(1) * group_outputs + axis(2), axis(5), axis(6), axis(7)});
  Var* result = reduce(g, map(g, Fn::mul, xx, ww), {5, 6, 7}, Reduce::add, false);
  result = reshape(g, result, {batch, outputs, oh, ow});
  if (bias) result = map(g, Fn::add, result, per_channel(g, widen(g, bias), 4));
  n.set_output(0, cast(g, result, dtype));
}

METAC_OPERATOR("DeformConv")
    .since({19, 22})
    .inputs(3, 5)
    .outputs(1)
    .attribute("strides", Kind::integers)
    .attribute("pads", Kind::integers)
    .attribute("offset_group", Kind::integer)
    .attribute("kernel_shape", Kind::integers)
    .attribute("group", Kind::integer)
    .attribute("dilations", Kind::integers)
    .lower(lower_deformable_convolution);

}  // namespace
}  // namespace metac
