// RoiAlign and MaxRoiPool: rectangles of a feature map, each pooled to the same number of bins. Where the samples lie
// depends on the rectangle alone: that is computed once, beside the big loop over channels.
#include <cmath>

#include "compiler/ops/pointwise/arithmetic.h"
#include "compiler/ops/shape_operands.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

// A table over rectangles that the big loop reads.
Var* table(Graph& g, const std::vector<Var*>& operands, const Shape& shape, Expr body) {
  Var* out = g.elementwise(operands, shape, body);
  out->stop_fuse = true;
  return out;
}

// The largest of a table of counts, as a dim.
Dim largest(Graph& g, Var* counts, std::string_view what) {
  Var* most = reduce(g, counts, {0}, Reduce::max, false);
  most = elementwise(g, {most}, [](const std::vector<Expr>& v) { return max(v[0], 0); });
  return index_scalar(g, most, what, 0, 1 << 14);
}

// Rectangles need something to look at.
void require_pixels(Graph& g, const Var* x, const Var* rois) {
  Expr pixels = x->shape()[0] * x->shape()[2] * x->shape()[3];
  g.require(logical_or(Expr(1) <= pixels, equal(rois->shape()[0], Expr(0))),
            concat("X of shape ", to_string(x->shape()), " has no elements"));
}

// One spatial axis of RoiAlign.
struct Samples {
  Dim most;        // samples per bin, of the rectangle that has most
  Var* counts;     // int64 [rectangles]
  Var* positions;  // [rectangles, bins, most]: where to look; `outside` where the map ends
};
constexpr double outside = -2;

Samples place_samples(Lowering& n, Var* rois, int first, int last, int64_t bins, Dim extent, bool half_pixel) {
  Graph& g = n.graph();
  DType real = rois->dtype();
  auto c = [&](double v) { return float_constant(v, real); };
  Dim count = rois->shape()[0];
  auto corner = [&](int k) {
    return load(0, real, {axis(0), Expr(k)}) * c(n.real("spatial_scale", 1)) - c(half_pixel ? 0.5 : 0);
  };
  Expr start = corner(first), length = corner(last) - start;
  if (!half_pixel) length = max(length, c(1));
  Expr bin = length / c(static_cast<double>(bins));
  int64_t ratio = n.integer("sampling_ratio", 0);
  if (ratio < 0 || ratio > 1 << 14) fail("sampling_ratio is ", ratio);
  Samples s;
  s.counts = table(g, {rois}, {count}, ratio > 0 ? Expr(ratio) : max(cast(call(Fn::ceil, {bin}), DType::i64), 0));
  s.most = ratio > 0 ? Expr(ratio) : largest(g, s.counts, "samples of a bin");
  Expr own = load(1, DType::i64, {axis(0)}), samples = cast(own, real);
  Expr at = start + cast(axis(1), real) * bin + (cast(axis(2), real) + c(0.5)) * bin / samples;
  Expr inside = logical_and(c(-1) <= at, at <= cast(extent, real));
  s.positions = table(g, {rois, s.counts}, {count, bins, s.most}, select(inside, max(at, c(0)), c(outside)));
  return s;
}

void lower_roi_align(Lowering& n) {
  Graph& g = n.graph();
  Var *x = n.input(0), *rois = n.input(1), *batches = n.input(2);
  require_float(x, "X");
  require_rank(x, 4, "X");
  require_rank(rois, 2, "rois");
  require_rank(batches, 1, "batch_indices");
  require_same_dtype(x, rois, "X", "rois");
  require_integer(batches, "batch_indices");
  require_equal(g, rois->shape()[1], 4, "the corners of a rectangle in rois");
  require_equal(g, rois->shape()[0], batches->shape()[0], "rois against batch_indices");
  require_pixels(g, x, rois);
  std::string mode = n.string("mode", "avg"),
              corners = n.string("coordinate_transformation_mode", n.opset() < 16 ? "output_half_pixel" : "half_pixel");
  if (mode != "avg" && mode != "max") fail("mode ", quoted(mode), " is not known");
  if (corners != "half_pixel" && corners != "output_half_pixel")
    fail("coordinate_transformation_mode ", quoted(corners), " is not known");
  int64_t height = n.integer("output_height", 1), width = n.integer("output_width", 1);
  if (height < 1 || width < 1) fail("output_height and output_width must be positive, found ", height, " and ", width);
  DType dtype = x->dtype();
  x = widen(g, x);
  rois = widen(g, rois);
  DType real = x->dtype();
  auto c = [&](double v) { return float_constant(v, real); };
  check_index_range(g, batches, x->shape()[0], "batch_indices");
  Samples rows = place_samples(n, rois, 1, 3, height, x->shape()[2], corners == "half_pixel"),
          columns = place_samples(n, rois, 0, 2, width, x->shape()[3], corners == "half_pixel");

  // [rectangle, channel, bin, bin, sample, sample]
  Shape domain{rois->shape()[0], x->shape()[1], height, width, rows.most, columns.most};
  std::vector<Var*> places{batches, rows.positions, columns.positions};
  auto positions = [&](int operand, int spatial) {
    return load(operand, real, {axis(0), axis(2 + spatial), axis(4 + spatial)});
  };
  auto low_index = [&](Expr at, Dim extent) { return max(min(cast(at, DType::i64), extent - Expr(1)), 0); };
  std::vector<Var*> operands;
  for (int corner = 0; corner < 4; ++corner) {
    std::vector<Var*> inputs{x};
    inputs.insert(inputs.end(), places.begin(), places.end());
    std::vector<Expr> indices{safe_index(cast(load(1, batches->dtype(), {axis(0)}), DType::i64), x->shape()[0]), axis(1)};
    for (int spatial = 0; spatial < 2; ++spatial) {
      Dim extent = x->shape()[2 + spatial];
      Expr low = low_index(positions(2 + spatial, spatial), extent);
      bool high = spatial == 0 ? corner / 2 : corner % 2;
      indices.push_back(high ? min(low + Expr(1), extent - Expr(1)) : low);
    }
    operands.push_back(g.reindex(inputs, domain, indices));
  }
  operands.insert(operands.end(), {rows.positions, columns.positions, rows.counts, columns.counts});
  Expr weights[2][2], inside = bool_constant(true), counted = bool_constant(true);
  for (int spatial = 0; spatial < 2; ++spatial) {
    Expr at = positions(4 + spatial, spatial), last = cast(x->shape()[2 + spatial] - Expr(1), real);
    Expr place = min(at, last), share = place - call(Fn::floor, {place});
    weights[spatial][0] = c(1) - share;
    weights[spatial][1] = share;
    inside = logical_and(inside, c(outside) < at);
    counted = logical_and(counted, axis(4 + spatial) < load(6 + spatial, DType::i64, {axis(0)}));
  }
  Expr value;
  for (int corner = 0; corner < 4; ++corner) {
    Expr term = weights[0][corner / 2] * weights[1][corner % 2] * load(corner, real, identity_indices(6));
    value = !value ? term : mode == "avg" ? value + term : max(value, term);
  }
  value = select(inside, value, c(0));
  Var* sampled = g.elementwise(operands, domain, select(counted, value, mode == "avg" ? c(0) : c(-INFINITY)));
  Var* pooled = reduce(g, sampled, {4, 5}, mode == "avg" ? Reduce::add : Reduce::max, false);
  Expr all = load(1, DType::i64, {axis(0)}) * load(2, DType::i64, {axis(0)}), pool = load(0, real, identity_indices(4));
  Expr result = mode == "avg" ? pool / cast(max(all, 1), real) : select(equal(all, 0), c(0), pool);
  n.set_output(0, g.elementwise({pooled, rows.counts, columns.counts}, pooled->shape(), cast(result, dtype)));
}
METAC_OPERATOR("RoiAlign")
    .since({10, 16, 22})
    .inputs(3)
    .outputs(1)
    .attribute("mode", Kind::string)
    .attribute("output_height", Kind::integer)
    .attribute("output_width", Kind::integer)
    .attribute("sampling_ratio", Kind::integer)
    .attribute("spatial_scale", Kind::real)
    .attribute("coordinate_transformation_mode", Kind::string, 16)
    .lower(lower_roi_align);

// One spatial axis of MaxRoiPool: int64 [rectangles, bins] begins and ends, cut to the map.
struct Bins {
  Var *begins, *ends;
  Dim most;
};

Bins place_bins(Lowering& n, Var* rois, int first, int last, int64_t bins, Dim extent) {
  Graph& g = n.graph();
  DType real = rois->dtype();
  auto c = [&](double v) { return float_constant(v, real); };
  auto corner = [&](int k) {  // rounded, halves away from 0
    Expr at = load(0, real, {axis(0), Expr(k)}) * c(n.real("spatial_scale", 1));
    return call(Fn::trunc, {at + select(at < c(0), c(-0.5), c(0.5))});
  };
  Expr start = corner(first), bin = max(corner(last) - start + c(1), c(1)) / c(static_cast<double>(bins)),
       b = cast(axis(1), real);
  auto cut = [&](Expr at) {  // NaN becomes 0
    Expr place = start + at;
    return cast(select(c(0) <= place, min(place, cast(extent, real)), c(0)), DType::i64);
  };
  Shape shape{rois->shape()[0], bins};
  Bins out;
  out.begins = table(g, {rois}, shape, cut(call(Fn::floor, {b * bin})));
  out.ends = table(g, {rois}, shape, cut(call(Fn::ceil, {(b + c(1)) * bin})));
  Var* lengths = map(g, Fn::sub, out.ends, out.begins);
  out.most = largest(g, reduce(g, lengths, {1}, Reduce::max, false), "elements of a bin");
  return out;
}

METAC_OPERATOR("MaxRoiPool")
    .since({1, 22})
    .inputs(2)
    .outputs(1)
    .required("pooled_shape", Kind::integers)
    .attribute("spatial_scale", Kind::real)
    .lower([](Lowering& n) {
      Graph& g = n.graph();
      Var *x = n.input(0), *rois = n.input(1);
      require_float(x, "X");
      require_rank(x, 4, "X");
      require_rank(rois, 2, "rois");
      require_same_dtype(x, rois, "X", "rois");
      require_equal(g, rois->shape()[1], 5, "the numbers of a rectangle in rois");
      require_pixels(g, x, rois);
      std::vector<int64_t> pooled = n.integers("pooled_shape");
      if (pooled.size() != 2 || pooled[0] < 1 || pooled[1] < 1) fail("pooled_shape must be two positive numbers");
      rois = widen(g, rois);
      Bins rows = place_bins(n, rois, 2, 4, pooled[0], x->shape()[2]),
           columns = place_bins(n, rois, 1, 3, pooled[1], x->shape()[3]);
      Shape domain{rois->shape()[0], x->shape()[1], pooled[0], pooled[1], rows.most, columns.most};
      auto at = [&](int operand, int spatial) { return load(operand, DType::i64, {axis(0), axis(2 + spatial)}); };
      Expr batch = safe_index(cast(load(1, rois->dtype(), {axis(0), Expr(0)}), DType::i64), x->shape()[0]);
      Expr row = at(2, 0) + axis(4), column = at(4, 1) + axis(5);
      Expr inside = logical_and(row < at(3, 0), column < at(5, 1));
      std::vector<Expr> indices{batch, axis(1), min(row, x->shape()[2] - Expr(1)), min(column, x->shape()[3] - Expr(1))};
      Var* windows = g.reindex({x, rois, rows.begins, rows.ends, columns.begins, columns.ends}, domain, indices, {inside},
                               identity_of(Reduce::max, x->dtype()));
      Var* best = reduce(g, windows, {4, 5}, Reduce::max, false);
      Expr empty = logical_or(equal(at(1, 0), at(2, 0)), equal(at(3, 1), at(4, 1)));
      n.set_output(0, g.elementwise({best, rows.begins, rows.ends, columns.begins, columns.ends}, best->shape(),
                                    select(empty, constant_of(x->dtype(), 0), load(0, x->dtype(), identity_indices(4)))));
    });

}  // namespace
}  // namespace metac
