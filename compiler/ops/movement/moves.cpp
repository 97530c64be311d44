// Operators that place elements elsewhere along whole axes: Transpose, Concat, Split, Slice, Tile, ReverseSequence.
#include <algorithm>

#include "compiler/ir/bounds.h"
#include "compiler/ops/axis_set.h"
#include "compiler/ops/shape_operands.h"
#include "compiler/support/checked.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

METAC_OPERATOR("Transpose")
    .since({1, 13, 21, 23, 24, 25})
    .inputs(1)
    .outputs(1)
    .attribute("perm", Kind::integers)
    .lower([](Lowering& n) {
      Var* x = n.input(0);
      std::vector<int> perm = all_axes(x->rank());
      std::reverse(perm.begin(), perm.end());
      if (n.has("perm")) {
        std::vector<int64_t> given = n.integers("perm");
        if (given.size() != perm.size()) fail("perm has ", given.size(), " entries, the input has rank ", x->rank());
        perm = check_axes(given, x->rank(), "perm");
      }
      n.set_output(0, perm == all_axes(x->rank()) ? x : transpose(n.graph(), x, perm));
    });

METAC_OPERATOR("Concat")
    .since({1, 4, 11, 13})
    .inputs(1, -1)
    .outputs(1)
    .attribute("axis", Kind::integer, 1, 4)
    .required("axis", Kind::integer, 4)
    .lower([](Lowering& n) {
      std::vector<Var*> parts;
      for (size_t k = 0; k < n.input_count(); ++k) {
        parts.push_back(n.input(k));
        if (parts[k]->dtype() != parts[0]->dtype())
          fail("input ", k, " is ", name_of(parts[k]->dtype()), ", input 0 is ", name_of(parts[0]->dtype()));
        if (parts[k]->rank() != parts[0]->rank())
          fail("input ", k, " has shape ", to_string(parts[k]->shape()), ", input 0 has ", to_string(parts[0]->shape()));
      }
      if (parts[0]->rank() == 0) fail("scalars cannot be concatenated");
      int axis = check_axis(n.integer("axis", 1), parts[0]->rank());
      // Parts without elements add nothing; the last one stays for the shape if all are empty.
      std::vector<Var*> filled;
      for (Var* part : parts)
        if (!part->shape()[axis].is_int(0)) filled.push_back(part);
      for (Var* part : parts)
        for (int k = 0; k < part->rank(); ++k)
          if (k != axis && part->shape()[k].if_int() && parts[0]->shape()[k].if_int() &&
              part->shape()[k] != parts[0]->shape()[k])
            fail("shapes ", to_string(parts[0]->shape()), " and ", to_string(part->shape()), " differ along axis ", k,
                 ", which is not the axis ", axis, " of the concat");
      n.set_output(0, concat(n.graph(), filled.empty() ? std::vector<Var*>{parts[0]} : filled, axis));
    });

// The extents of the parts: given, or equal; from opset 18 the last may be smaller.
std::vector<Expr> split_extents(Lowering& n, Dim extent, int axis) {
  Graph& g = n.graph();
  size_t parts = n.output_count();
  std::vector<Expr> out;
  if (n.has("split")) {
    for (int64_t e : n.integers("split")) out.push_back(e);
  } else if (Var* split = n.optional_input(1)) {
    out = index_elements(g, split, "an entry of split", INT64_MIN, int64_t{1} << 40);
  }
  if (!out.empty()) {
    if (out.size() != parts) fail("split has ", out.size(), " entries, the node has ", parts, " outputs");
    Expr sum = 0;
    for (Expr e : out) {
      if (e.if_int() && e.as_int() < 0) fail("split has the negative entry ", e.as_int());
      sum = sum + e;
    }
    g.require(equal(sum, extent),
              concat("the entries of split sum to ", to_string(sum), ", axis ", axis, " is ", to_string(extent)));
    return out;
  }
  int64_t count = n.integer("num_outputs", static_cast<int64_t>(parts));
  if (count != static_cast<int64_t>(parts)) fail("num_outputs is ", count, ", the node has ", parts, " outputs");
  if (n.opset() < 18) {
    g.require(equal(floor_mod(extent, count), Expr(0)),
              concat("axis ", axis, " of extent ", to_string(extent), " does not split into ", count, " equal parts"));
    out.assign(parts, simplified(g, floor_div(extent, count)));
    return out;
  }
  Expr chunk = simplified(g, ceil_div(extent, count));
  Expr last = extent - chunk * Expr(count - 1);
  if (last.if_int() && last.as_int() < 0)
    fail("axis ", axis, " of extent ", to_string(extent), " does not split into ", count, " parts of ", to_string(chunk));
  g.require(Expr(0) <= last, concat("axis ", axis, " of extent ", to_string(extent), " must split into ", count, " parts"));
  out.assign(parts, chunk);
  out.back() = last;
  return out;
}

METAC_OPERATOR("Split")
    .since({1, 2, 11, 13, 18})
    .inputs(1, 2)
    .outputs(1, -1)
    .attribute("axis", Kind::integer)
    .attribute("split", Kind::integers, 1, 13)
    .attribute("num_outputs", Kind::integer, 18)
    .lower([](Lowering& n) {
      Graph& g = n.graph();
      Var* x = n.input(0);
      if (x->rank() == 0) fail("a scalar cannot be split");
      int axis = check_axis(n.integer("axis", 0), x->rank());
      Expr start = 0;
      std::vector<Expr> extents = split_extents(n, x->shape()[axis], axis);
      for (size_t k = 0; k < extents.size(); ++k) {
        if (n.wants_output(k))
          n.set_output(k, extents.size() == 1 ? x : slice(g, x, {axis}, {start}, {extents[k]}, {Expr(1)}));
        start = start + extents[k];
      }
    });

// Starts, ends and steps as Python has them. INT64_MIN and INT64_MAX mean "from the end": they are moved to where sums with
// dims cannot overflow.
Expr tame(Expr e) {
  constexpr int64_t far = int64_t{1} << 60;
  return e.if_int() ? Expr(std::clamp(e.as_int(), -far, far)) : e;
}

struct AxisSlice {
  Expr start, extent;
};
// A step that only data knows may go either way.
AxisSlice slice_axis(const Graph& g, Dim dim, Expr start, Expr end, Expr step) {
  auto position = [&](Expr e) { return simplified(g, select(e < Expr(0), e + dim, e)); };
  auto clamp = [&](Expr e, Expr low, Expr high) { return simplified(g, min(max(e, low), high)); };
  start = position(tame(start));
  end = position(tame(end));
  Expr last = dim - Expr(1), forward = Expr(0) < step;
  start = select(forward, clamp(start, 0, dim), clamp(start, 0, last));
  end = select(forward, clamp(end, 0, dim), clamp(end, -1, last));
  Expr count = step.if_int() && step.as_int() < 0 ? ceil_div(start - end, -step)
               : step.if_int()                    ? ceil_div(end - start, step)
                                                  : -floor_div(start - end, step);
  return {start, simplified(g, max(count, 0))};
}

void lower_slice(Lowering& n) {
  Graph& g = n.graph();
  Var* x = n.input(0);
  std::vector<Expr> starts, ends, steps;
  std::vector<int64_t> numbers;
  if (n.opset() < 10) {
    for (int64_t v : n.integers("starts")) starts.push_back(v);
    for (int64_t v : n.integers("ends")) ends.push_back(v);
    numbers = n.integers("axes");
  } else {
    starts = index_elements(g, n.input(1), "a start");
    ends = index_elements(g, n.input(2), "an end");
    if (n.optional_input(4)) steps = index_elements(g, n.input(4), "a step");
  }
  Var* operand = n.opset() < 10 ? nullptr : n.optional_input(3);
  if (!operand && numbers.empty())
    for (size_t k = 0; k < starts.size(); ++k) numbers.push_back(static_cast<int64_t>(k));
  AxisSet axes = operand ? AxisSet(g, operand, x->rank()) : AxisSet(numbers, x->rank());
  if (steps.empty()) steps.assign(starts.size(), Expr(1));
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    fail("starts, ends, axes and steps have ", starts.size(), ", ", ends.size(), ", ", axes.size(), " and ", steps.size(),
         " entries; they must agree");
  for (size_t k = 0; k < steps.size(); ++k) {
    if (steps[k].is_int(0)) fail("the step of axis ", to_string(axes.number(k)), " is 0");
    g.require(not_equal(steps[k], Expr(0)), "Slice: a step is 0");
    steps[k] = tame(steps[k]);
  }
  std::vector<int> at;
  std::vector<Expr> from, extents, by;
  for (int k = 0; k < x->rank(); ++k) {
    if (axes.contains(k).is_int(0)) continue;
    Dim dim = x->shape()[k];
    Expr step = axes.entry(steps, k, 1);
    AxisSlice s = slice_axis(g, dim, axes.entry(starts, k, 0), axes.entry(ends, k, dim), step);
    if (s.start.is_int(0) && step.is_int(1) && s.extent == dim) continue;
    at.push_back(k);
    from.push_back(s.start);
    extents.push_back(s.extent);
    by.push_back(s.extent.is_int(0) || s.extent.is_int(1) ? Expr(1) : step);  // no second element: the step does not matter
  }
  n.set_output(0, at.empty() ? x : slice(g, x, at, from, extents, by));
}
METAC_OPERATOR("Slice")
    .since({1, 10, 11, 13})
    .inputs(1, 5)
    .outputs(1)
    .required("starts", Kind::integers, 1, 10)
    .required("ends", Kind::integers, 1, 10)
    .attribute("axes", Kind::integers, 1, 10)
    .lower(lower_slice);

METAC_OPERATOR("Tile").since({1, 6, 13}).inputs(2, 3).outputs(1).lower([](Lowering& n) {
  Graph& g = n.graph();
  Var* x = n.input(0);
  std::vector<Expr> repeats(x->rank(), Expr(1));
  if (n.opset() < 6) {
    Expr axis = index_scalar(g, n.input(2), "the axis");
    if (!axis.if_int()) fail("the axis must be a constant");
    repeats[check_axis(axis.as_int(), x->rank())] = index_scalar(g, n.input(1), "the number of tiles", 0);
  } else {
    repeats = dim_elements(g, n.input(1), "a repeat");
    if (repeats.size() != x->shape().size())
      fail("repeats has ", repeats.size(), " entries, the input has rank ", x->rank());
  }
  Shape shape;
  std::vector<Expr> indices;
  for (int k = 0; k < x->rank(); ++k) {
    if (x->shape()[k].if_int() && repeats[k].if_int() && !checked_mul(x->shape()[k].as_int(), repeats[k].as_int()))
      fail(to_string(repeats[k]), " tiles of axis ", k, " of ", to_string(x->shape()), " have more than 2^63 elements");
    shape.push_back(x->shape()[k] * repeats[k]);
    indices.push_back(floor_mod(axis(k), x->shape()[k]));
  }
  n.set_output(0, shape == x->shape() ? x : g.reindex({x}, shape, indices));
});

METAC_OPERATOR("ReverseSequence")
    .since({10, 28})
    .inputs(2)
    .outputs(1)
    .attribute("time_axis", Kind::integer)
    .attribute("batch_axis", Kind::integer)
    .lower([](Lowering& n) {
      Graph& g = n.graph();
      Var *x = n.input(0), *lengths = n.input(1);
      int time = check_axis(n.integer("time_axis", 0), x->rank(), "time_axis"),
          batch = check_axis(n.integer("batch_axis", 1), x->rank(), "batch_axis");
      if (time == batch) fail("time_axis and batch_axis are both ", time);
      if (lengths->rank() != 1) fail("sequence_lens must have rank 1, its shape is ", to_string(lengths->shape()));
      g.require(
          equal(lengths->shape()[0], x->shape()[batch]),
          concat("sequence_lens has shape ", to_string(lengths->shape()), ", the batch is ", to_string(x->shape()[batch])));
      Expr extent = x->shape()[time];
      Expr length = cast(load(1, lengths->dtype(), {axis(batch)}), DType::i64);
      std::vector<Expr> indices = identity_indices(x->rank());
      Expr mirrored = max(min(length, extent) - Expr(1) - axis(time), 0);
      indices[time] = select(axis(time) < length, mirrored, axis(time));
      n.set_output(0, g.reindex({x, lengths}, x->shape(), indices));
    });

}  // namespace
}  // namespace metac
