// GridSample in any number of spatial dims: the grid says, per output position, where to look; the taps around that place
// are gathered and weighed. Coordinates do not depend on the channel: they are computed once, beside the big loop.
#include "compiler/ops/movement/interpolation.h"
#include "compiler/ops/shape_operands.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

enum class Padding { zeros, border, reflection };

struct Sampling {
  int taps, first;  // per axis: first .. first + taps - 1 around floor(coordinate)
  Padding padding;
  bool align_corners;
};

// Mirrors a real coordinate at the borders of [0, extent - 1] (aligned) or [-0.5, extent - 0.5].
Expr reflect(Expr x, Dim extent, bool aligned) {
  Expr low = real_like(x, aligned ? 0 : -0.5), range = cast(aligned ? extent - Expr(1) : extent, x->dtype);
  Expr period = range * real_like(x, 2), u = x - low;
  Expr phase = u - period * floor_of(u / period);
  Expr mirrored = low + min(phase, period - phase);
  Expr outside = logical_or(u < real_like(x, 0), range < u);
  // One element and aligned corners: the range is 0 and every coordinate shows it.
  return select(equal(range, real_like(x, 0)), low, select(outside, mirrored, x));
}

Expr reflect_index(Expr i, Dim extent, bool aligned) {
  if (aligned) {
    Expr period = (extent - Expr(1)) * Expr(2), phase = floor_mod(i, period);
    return min(phase, period - phase);
  }
  Expr phase = floor_mod(i, extent * Expr(2));
  return min(phase, extent * Expr(2) - Expr(1) - phase);
}

// From the grid's [-1, 1] to positions along an axis of the input, with padding where that is decided by the coordinate.
Expr coordinate(Expr grid, Dim extent, const Sampling& s, bool nearest) {
  auto c = [&](double value) { return real_like(grid, value); };
  Expr size = cast(extent, grid->dtype);
  Expr x = s.align_corners ? (grid + c(1)) / c(2) * (size - c(1)) : ((grid + c(1)) * size - c(1)) / c(2);
  if (nearest) x = call(Fn::rint, {x});
  if (s.padding == Padding::border) {
    Expr inner = max(min(x, size - c(1)), c(0));
    // ONNX's reference moves only what lies outside of the outermost pixels; four taps see the difference.
    Expr beyond = s.align_corners ? c(0) : c(0.5);
    x = s.taps < 4 ? inner : select(logical_and(-beyond <= x, x <= size - c(1) + beyond), x, inner);
  }
  if (s.padding == Padding::reflection) x = reflect(x, extent, s.align_corners);
  // What no integer holds, NaN among it, is far outside.
  constexpr double far = 1e9;
  return select(logical_and(c(-far) <= x, x <= c(far)), x, c(-far));
}

void lower_grid_sample(Lowering& n) {
  Graph& g = n.graph();
  Var *x = n.input(0), *grid = n.input(1);
  int rank = x->rank(), spatial = rank - 2;
  if (rank < 3 || grid->rank() != rank)
    fail("X of shape ", to_string(x->shape()), " and grid of shape ", to_string(grid->shape()),
         " must have one rank, at least 3");
  g.require(equal(grid->shape().back(), Expr(spatial)),
            concat("the last dim of grid must be ", spatial, ", its shape is ", to_string(grid->shape())));
  if (!is_float(grid->dtype())) fail("grid must be float, not ", name_of(grid->dtype()));
  g.require(equal(x->shape()[0], grid->shape()[0]), concat("X of shape ", to_string(x->shape()), " and grid of shape ",
                                                           to_string(grid->shape()), " differ in the batch"));
  std::string mode = n.string("mode", n.opset() < 20 ? "bilinear" : "linear"), padding = n.string("padding_mode", "zeros");
  bool linear = mode == "linear" || mode == "bilinear", cubic = mode == "cubic" || mode == "bicubic",
       nearest = mode == "nearest";
  if (!linear && !cubic && !nearest) fail("mode ", quoted(mode), " is not known");
  if (padding != "zeros" && padding != "border" && padding != "reflection")
    fail("padding_mode ", quoted(padding), " is not known");
  if (cubic && spatial > 3) fail("cubic mode in ", spatial, " dims");
  Sampling s{linear  ? 2
             : cubic ? 4
                     : 1,
             cubic ? -1 : 0,
             padding == "zeros"    ? Padding::zeros
             : padding == "border" ? Padding::border
                                   : Padding::reflection,
             n.integer("align_corners", 0) != 0};
  DType dtype = x->dtype(), work = dtype == DType::f64 ? DType::f64 : nearest ? dtype : DType::f32;
  if (!nearest && is_bool(dtype)) fail("bool cannot be interpolated");
  Var* data = cast(g, x, work);

  Shape place(grid->shape().begin(), grid->shape().end() - 1);  // [N, out...]
  Shape shape = place;
  shape.insert(shape.begin() + 1, x->shape()[1]);
  std::vector<Var*> coordinates;
  for (int d = 0; d < spatial; ++d) {
    std::vector<Expr> at = identity_indices(rank - 1);
    at.push_back(spatial - 1 - d);  // the grid names the last axis first
    Expr value = load(0, grid->dtype(), at);
    if (grid->dtype() != DType::f64) value = cast(value, DType::f32);
    coordinates.push_back(g.elementwise({grid}, place, coordinate(value, x->shape()[2 + d], s, nearest)));
    coordinates.back()->stop_fuse = true;
  }
  DType real = coordinates[0]->dtype();
  std::vector<Expr> at_place = {axis(0)};
  for (int d = 0; d < spatial; ++d) at_place.push_back(axis(2 + d));

  // One Reindex per combination of taps, then their weighted sum.
  std::vector<Var*> operands;
  std::vector<std::vector<int>> offsets;
  int combinations = 1;
  for (int d = 0; d < spatial; ++d) combinations *= s.taps;
  for (int c = 0; c < combinations; ++c) {
    std::vector<int> offset(spatial);
    int rest = c;
    for (int d = spatial; d-- > 0; rest /= s.taps) offset[d] = s.first + rest % s.taps;
    std::vector<Var*> inputs = {data};
    std::vector<Expr> indices = {axis(0), axis(1)}, conditions;
    for (int d = 0; d < spatial; ++d) {
      Dim extent = x->shape()[2 + d];
      Expr i = cast(floor_of(load(1 + d, real, at_place)), DType::i64) + Expr(offset[d]);
      inputs.push_back(coordinates[d]);
      if (s.padding == Padding::zeros) {
        conditions.push_back(Expr(0) <= i);
        conditions.push_back(i < extent);
      } else {
        i = s.padding == Padding::border ? max(min(i, extent - Expr(1)), 0) : reflect_index(i, extent, s.align_corners);
      }
      indices.push_back(i);
    }
    operands.push_back(g.reindex(inputs, shape, indices, conditions));
    offsets.push_back(offset);
  }
  if (nearest) return n.set_output(0, operands[0]);
  Expr sum;
  for (int c = 0; c < combinations; ++c) {
    Expr term = load(c, work, identity_indices(rank));
    for (int d = 0; d < spatial; ++d) {
      Expr at = load(combinations + d, real, at_place);
      Expr fraction = at - floor_of(at);
      term = term * cast(linear ? linear_tap(fraction, offsets[c][d]) : cubic_tap(fraction, offsets[c][d], -0.75), work);
    }
    sum = c == 0 ? term : sum + term;
  }
  operands.insert(operands.end(), coordinates.begin(), coordinates.end());
  n.set_output(0, cast(g, g.elementwise(operands, shape, sum), dtype));
}

// grid[n, place..., k] = sum over j of theta[n, k, j] * (x, y, z, 1)[j], positions spread evenly over [-1, 1].
void lower_affine_grid(Lowering& n) {
  Graph& g = n.graph();
  Var* theta = n.input(0);
  std::vector<Expr> size = dim_elements(g, n.input(1), "an entry of size");
  int spatial = static_cast<int>(size.size()) - 2;
  if (spatial != 2 && spatial != 3) fail("size has ", size.size(), " entries, expected 4 or 5");
  if (theta->rank() != 3 || !is_float(theta->dtype()))
    fail("theta must be float of rank 3, found ", name_of(theta->dtype()), " ", to_string(theta->shape()));
  for (int k = 0; k < 3; ++k) {
    Expr expected = k == 0 ? size[0] : Expr(spatial + k - 1);
    g.require(equal(theta->shape()[k], expected),
              concat("theta has shape ", to_string(theta->shape()), ", axis ", k, " must be ", to_string(expected)));
  }
  bool aligned = n.integer("align_corners", 0) != 0;
  DType dtype = theta->dtype(), work = dtype == DType::f64 ? DType::f64 : DType::f32;
  auto c = [&](double value) { return float_constant(value, work); };
  Shape shape = {size[0]};
  shape.insert(shape.end(), size.begin() + 2, size.end());
  shape.push_back(spatial);
  auto entry = [&](int j) { return cast(load(0, dtype, {axis(0), axis(spatial + 1), Expr(j)}), work); };
  Expr sum = entry(spatial);
  for (int j = 0; j < spatial; ++j) {
    int place = spatial - j;  // x runs along the last axis
    Expr at = cast(axis(place), work), extent = cast(shape[place], work);
    // One position with aligned corners stands at the start.
    Expr step = aligned ? select(equal(extent, c(1)), c(0), c(2) / (extent - c(1))) : c(2) / extent;
    Expr position = (aligned ? c(-1) : c(-1) + step / c(2)) + at * step;
    sum = sum + entry(j) * position;
  }
  n.set_output(0, g.elementwise({theta}, shape, cast(sum, dtype)));
}
METAC_OPERATOR("AffineGrid")
    .since({20})
    .inputs(2)
    .outputs(1)
    .attribute("align_corners", Kind::integer)
    .lower(lower_affine_grid);

METAC_OPERATOR("GridSample")
    .since({16, 20, 22})
    .inputs(2)
    .outputs(1)
    .attribute("mode", Kind::string)
    .attribute("padding_mode", Kind::string)
    .attribute("align_corners", Kind::integer)
    .lower(lower_grid_sample);

}  // namespace
}  // namespace metac
