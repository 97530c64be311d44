// Resize and Upsample. Interpolation is separable: one axis after the other,
//     out[.., i, ..] = sum over taps t of weight(i, t) * x[.., clamp(first(i) + t), ..]
// where the positions and weights are small tables, computed once (and folded where shapes are static), so that the big
// loops neither divide nor round. Nearest neighbours are one Reindex; whole factors are plain index arithmetic.
#include <algorithm>
#include <cmath>

#include "compiler/ops/movement/interpolation.h"
#include "compiler/ops/movement/resize_axes.h"
#include "compiler/ops/shape_operands.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

struct Options {
  std::string mode, coordinates, nearest;
  bool exclude_outside, antialias;
  double cubic_a, extrapolation;
};

Options read_options(const Lowering& n) {
  bool modern = n.node().op_type == "Resize" && n.opset() >= 11;
  Options o;
  o.mode = n.string("mode", "nearest");
  if (o.mode == "bilinear" || o.mode == "trilinear") o.mode = "linear";
  if (o.mode != "nearest" && o.mode != "linear" && o.mode != "cubic") fail("mode ", quoted(o.mode), " is not known");
  // Before opset 11: asymmetric; nearest rounds down when growing and up when shrinking.
  o.coordinates = n.string("coordinate_transformation_mode", modern ? "half_pixel" : "asymmetric");
  o.nearest = n.string("nearest_mode", modern ? "round_prefer_floor" : "simple");
  o.exclude_outside = n.integer("exclude_outside", 0) != 0;
  o.antialias = n.integer("antialias", 0) != 0;
  o.cubic_a = n.real("cubic_coeff_a", -0.75);
  o.extrapolation = n.real("extrapolation_value", 0);
  if (o.antialias && o.mode == "nearest") fail("antialias does not go with mode nearest");
  return o;
}

// Small tables that big loops read must not be recomputed inside them.
Var* table(Graph& g, const std::vector<Var*>& operands, Shape shape, Expr body) {
  Var* out = g.elementwise(operands, std::move(shape), body);
  out->stop_fuse = true;
  return out;
}

Expr clamp_index(Expr index, Dim extent) { return max(min(index, extent - Expr(1)), 0); }

Expr nearest_position(const AxisResize& a, const Options& o) {
  Expr x = source_coordinate(a, o.coordinates), half = real_like(x, 0.5), rounded;
  if (o.nearest == "floor")
    rounded = floor_of(x);
  else if (o.nearest == "ceil")
    rounded = call(Fn::ceil, {x});
  else if (o.nearest == "round_prefer_floor")
    rounded = call(Fn::ceil, {x - half});
  else if (o.nearest == "round_prefer_ceil")
    rounded = floor_of(x + half);
  else if (o.nearest == "simple")
    rounded = select(a.scale < real_like(x, 1), call(Fn::ceil, {x}), floor_of(x));
  else
    fail("nearest_mode ", quoted(o.nearest), " is not known");
  return clamp_index(cast(rounded, DType::i64), a.from);
}

// Growing by a whole factor shows every element that many times; the rounding modes that centre agree with plain division.
bool repeats(const AxisResize& a, const Options& o) {
  if (a.factor < 1) return false;
  bool down = o.nearest == "floor" || o.nearest == "simple",
       round = o.nearest == "round_prefer_floor" || o.nearest == "round_prefer_ceil";
  if (o.coordinates == "asymmetric") return down;
  return round &&
         (o.coordinates == "half_pixel" || o.coordinates == "pytorch_half_pixel" || o.coordinates == "half_pixel_symmetric");
}

// Where tf_crop_and_resize looks outside the input, the extrapolation value stands.
Var* extrapolated(Graph& g, Var* x, const ResizePlan& plan, const AxisResize& a, const Options& o) {
  if (o.coordinates != "tf_crop_and_resize") return x;
  Expr at = source_coordinate(a, o.coordinates), last = cast(a.from - Expr(1), at->dtype);
  Var* outside = table(g, plan.operands, {a.to}, logical_or(at < real_like(at, 0), last < at));
  Expr value = constant_of(x->dtype(), o.extrapolation);
  return g.elementwise(
      {x, outside}, x->shape(),
      select(load(1, DType::boolean, {axis(a.axis)}), value, load(0, x->dtype(), identity_indices(x->rank()))));
}

Var* resize_nearest(Graph& g, Var* x, const ResizePlan& plan, const Options& o) {
  std::vector<Var*> operands = {x};
  std::vector<Expr> indices = identity_indices(x->rank());
  for (const AxisResize& a : plan.axes) {
    if (a.untouched) continue;
    if (repeats(a, o)) {
      indices[a.axis] = floor_div(axis(a.axis), a.factor);
      continue;
    }
    indices[a.axis] = load(static_cast<int>(operands.size()), DType::i64, {axis(a.axis)});
    operands.push_back(table(g, plan.operands, {a.to}, nearest_position(a, o)));
  }
  Var* out = g.reindex(operands, plan.shape, indices);
  for (const AxisResize& a : plan.axes) out = extrapolated(g, out, plan, a, o);
  return out;
}

// Which input elements one output element sees, relative to floor(coordinate), and how they are weighed.
struct Window {
  Expr first, count;
  Expr stretch;  // positions are multiplied by this before the filter: < 1 where antialiasing widens it; a load of
                 // plan.operands where only data knows it
};

Window window_of(Graph& g, const ResizePlan& plan, const AxisResize& a, const Options& o) {
  constexpr int64_t most = 4096;
  const double support = o.mode == "linear" ? 1 : 2;
  if (!o.antialias)
    return {1 - static_cast<int64_t>(support), 2 * static_cast<int64_t>(support), float_constant(1, DType::f32)};
  Expr stretch = min(a.scale, real_like(a.scale, 1));
  Expr reach = floor_of(float_constant(-support, DType::f64) / cast(stretch, DType::f64));
  Expr first =
      index_scalar(g, g.elementwise(plan.operands, Shape{}, cast(reach, DType::i64)), "how far antialias looks", -most, -1) +
      Expr(1);
  return {first, Expr(2) - first * Expr(2), stretch};
}

Var* interpolate_axis(Graph& g, Var* x, const ResizePlan& plan, const AxisResize& a, const Options& o) {
  Window w = window_of(g, plan, a, o);
  std::vector<Var*> operands = plan.operands;
  operands.push_back(table(g, plan.operands, {a.to}, source_coordinate(a, o.coordinates)));
  Expr at = load(static_cast<int>(operands.size()) - 1, DType::f32, {axis(0)}), base = floor_of(at);
  Expr position = cast(base, DType::i64) + axis(1) + w.first;
  Expr distance = (cast(axis(1) + w.first, DType::f32) - (at - base)) * w.stretch;
  Expr weight = o.mode == "linear" ? linear_weight(distance) : cubic_weight(distance, o.cubic_a);
  if (o.exclude_outside) weight = select(logical_and(Expr(0) <= position, position < a.from), weight, real_like(weight, 0));
  Shape window_shape = {a.to, w.count};
  Var* positions = table(g, operands, window_shape, clamp_index(position, a.from));
  Var* weights = table(g, operands, window_shape, weight);
  if (o.antialias || o.exclude_outside) {
    Var* sum = reduce(g, weights, {1}, Reduce::add, true);
    weights =
        table(g, {weights, sum}, window_shape, load(0, DType::f32, {axis(0), axis(1)}) / load(1, DType::f32, {axis(0), 0}));
  }
  if (x->dtype() != DType::f32) weights = cast(g, weights, x->dtype());

  int rank = x->rank(), k = a.axis;
  Shape shape = x->shape();
  shape[k] = a.to;
  std::vector<Expr> here = identity_indices(rank);
  Var* out = nullptr;
  if (w.count.if_int() && w.count.as_int() <= 4) {
    std::vector<Var*> terms;
    Expr sum;
    int weight_operand = static_cast<int>(w.count.as_int());
    for (int64_t t = 0; t < w.count.as_int(); ++t) {
      std::vector<Expr> indices = here;
      indices[k] = load(1, DType::i64, {axis(k), Expr(t)});
      terms.push_back(g.reindex({x, positions}, shape, indices));
      Expr term = load(static_cast<int>(t), x->dtype(), here) * load(weight_operand, x->dtype(), {axis(k), Expr(t)});
      sum = t == 0 ? term : sum + term;
    }
    terms.push_back(weights);
    out = g.elementwise(terms, shape, sum);
  } else {
    Shape wide = shape;
    wide.push_back(w.count);
    std::vector<Expr> indices = here;
    indices[k] = load(1, DType::i64, {axis(k), axis(rank)});
    Var* taps = g.reindex({x, positions}, wide, indices);
    Var* products = g.elementwise(
        {taps, weights}, wide, load(0, x->dtype(), identity_indices(rank + 1)) * load(1, x->dtype(), {axis(k), axis(rank)}));
    out = reduce(g, products, {rank}, Reduce::add, false);
  }
  return extrapolated(g, out, plan, a, o);
}

void lower_resize(Lowering& n) {
  Graph& g = n.graph();
  Var* x = n.input(0);
  Options o = read_options(n);
  ResizePlan plan = plan_resize(n);
  bool same = std::all_of(plan.axes.begin(), plan.axes.end(), [](const AxisResize& a) { return a.untouched; });
  if (same) return n.set_output(0, x);
  if (is_bool(x->dtype()) && o.mode != "nearest") fail("bool cannot be interpolated");
  if (o.mode == "nearest") return n.set_output(0, resize_nearest(g, x, plan, o));
  DType dtype = x->dtype(), work = dtype == DType::f64 ? DType::f64 : DType::f32;
  Var* y = cast(g, x, work);
  for (const AxisResize& a : plan.axes)
    if (!a.untouched) y = interpolate_axis(g, y, plan, a, o);
  if (is_integer(dtype)) {
    double low = static_cast<double>(min_value(dtype)), high = static_cast<double>(max_value(dtype));
    y = elementwise(
        g, {y}, [&](const std::vector<Expr>& v) { return min(max(v[0], constant_of(work, low)), constant_of(work, high)); });
  }
  n.set_output(0, cast(g, y, dtype));
}

METAC_OPERATOR("Resize")
    .since({10, 11, 13, 18, 19})
    .inputs(1, 4)
    .outputs(1)
    .attribute("mode", Kind::string)
    .attribute("coordinate_transformation_mode", Kind::string, 11)
    .attribute("nearest_mode", Kind::string, 11)
    .attribute("cubic_coeff_a", Kind::real, 11)
    .attribute("exclude_outside", Kind::integer, 11)
    .attribute("extrapolation_value", Kind::real, 11)
    .attribute("antialias", Kind::integer, 18)
    .attribute("axes", Kind::integers, 18)
    .attribute("keep_aspect_ratio_policy", Kind::string, 18)
    .lower(lower_resize);

METAC_OPERATOR("Upsample")
    .since({1, 7, 9, 10})
    .inputs(1, 2)
    .outputs(1)
    .attribute("mode", Kind::string)
    .required("height_scale", Kind::real, 1, 7)
    .required("width_scale", Kind::real, 1, 7)
    .required("scales", Kind::reals, 7, 9)
    .lower(lower_resize);

}  // namespace
}  // namespace metac
