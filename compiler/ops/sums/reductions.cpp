#include "compiler/ops/sums/reductions.h"

#include "compiler/ops/axis_set.h"
#include "compiler/ops/control/carried_loop.h"
#include "compiler/ops/pointwise/arithmetic.h"
#include "compiler/ops/shape_operands.h"

namespace metac {

std::vector<int> axes_from(int first, int rank) {
  std::vector<int> axes;
  for (int i = first; i < rank; ++i) axes.push_back(i);
  return axes;
}

Var* variance(Graph& g, Var* x, Var* mean_of_x, const std::vector<int>& axes) {
  Var* squares = elementwise(g, {x, mean_of_x}, [](const std::vector<Expr>& v) { return (v[0] - v[1]) * (v[0] - v[1]); });
  return mean(g, squares, axes, true);
}

// The maximum is subtracted first, unless it is infinite: then exp() has the right value by itself.
Var* log_sum_exp(Graph& g, Var* x, const std::vector<int>& axes) {
  Var* top = elementwise(g, {reduce(g, x, axes, Reduce::max, true)}, [](const std::vector<Expr>& v) {
    return select(call(Fn::is_inf, {v[0]}), constant_like(v[0], 0), v[0]);
  });
  Var* powers = elementwise(g, {x, top}, [](const std::vector<Expr>& v) { return call(Fn::exp, {v[0] - v[1]}); });
  Var* sum = reduce(g, powers, axes, Reduce::add, true);
  return elementwise(g, {sum, top}, [](const std::vector<Expr>& v) { return call(Fn::log, {v[0]}) + v[1]; });
}

namespace {

using Kind = Attribute::Kind;

// What is reduced and how: dims are kept while computing, dropped at the end.
struct Reduction {
  AxisSet axes;
  bool keepdims = true;
};

std::vector<int64_t> all_axis_numbers(int rank) {
  std::vector<int> axes = axes_from(0, rank);
  return {axes.begin(), axes.end()};
}

Reduction reduction_of(Lowering& n, int axes_input_since) {
  Reduction r;
  int rank = n.input(0)->rank();
  r.keepdims = n.integer("keepdims", 1) != 0;
  if (n.opset() < axes_input_since)
    r.axes = AxisSet(n.integers("axes"), rank);
  else if (Var* input = n.optional_input(1))
    r.axes = AxisSet(n.graph(), input, rank);
  if (r.axes.size() == 0 && n.integer("noop_with_empty_axes", 0) == 0) r.axes = AxisSet(all_axis_numbers(rank), rank);
  return r;
}

using Compute = std::function<Var*(Graph&, Var*, const std::vector<int>&)>;  // keeps dims

// Whether the last axis is summed or kept decides which loop can run in vectors: there is code for both.
Var* reduce_open_axes(Graph& g, Var* x, const AxisSet& axes, const Compute& compute_kept) {
  const int rank = x->rank();
  const std::vector<int> named = axes_from(rank, 2 * rank);
  auto reduced = [&](std::optional<bool> last_is_named) {
    return squeeze(g, compute_kept(g, split_by_axes(g, x, axes, last_is_named), named), named);
  };
  if (rank == 1) return reduced(true);
  auto branch = [&](bool last_is_named) {
    Region region;
    OpenRegion open(g, region);
    region.results = {reduced(last_is_named)};
    return region;
  };
  Region summed = branch(true), kept = branch(false);
  Var* last = scalar_of(g, axes.contains(rank - 1), DType::boolean);
  Var* y = g.if_(last, std::move(summed), std::move(kept))->outputs[0];
  Shape shape;
  for (int k = 0; k < rank; ++k) shape.push_back(select(axes.contains(k), Expr(1), x->shape()[k]));
  return reshape(g, y, shape);
}

// The element-wise parts of an operator stay also where nothing is reduced (noop_with_empty_axes).
LowerFunction reduction(int axes_input_since, Compute compute_kept) {
  return [=](Lowering& n) {
    Graph& g = n.graph();
    Reduction r = reduction_of(n, axes_input_since);
    Var* x = n.input(0);
    Var* y;
    if (r.axes.known()) {
      y = compute_kept(g, widen(g, x), r.axes.values());
    } else {
      y = reduce_open_axes(g, widen(g, x), r.axes, compute_kept);
    }
    y = cast(g, y, x->dtype());
    n.set_output(0, r.keepdims ? y : without_axes(g, y, r.axes));
  };
}

Var* keep(Graph& g, Var* x, const std::vector<int>& axes, Reduce op) {
  return axes.empty() ? x : reduce(g, x, axes, op, true);
}
Var* sum(Graph& g, Var* x, const std::vector<int>& axes) { return keep(g, x, axes, Reduce::add); }
Var* squares(Graph& g, Var* x) {
  return elementwise(g, {x}, [](const std::vector<Expr>& v) { return v[0] * v[0]; });
}

OperatorBuilder reduce_operator(const char* name, std::initializer_list<int> since, int axes_input_since,
                                Compute compute_kept) {
  OperatorBuilder builder(name);
  builder.since(since)
      .inputs(1, 2)
      .outputs(1)
      .attribute("keepdims", Kind::integer)
      .attribute("axes", Kind::integers, 1, axes_input_since)
      .attribute("noop_with_empty_axes", Kind::integer, axes_input_since)
      .lower(reduction(axes_input_since, std::move(compute_kept)));
  return builder;
}

Compute extremum(Reduce op, Reduce of_bools) {
  return
      [=](Graph& g, Var* x, const std::vector<int>& axes) { return keep(g, x, axes, is_bool(x->dtype()) ? of_bools : op); };
}
const auto reduce_max = reduce_operator("ReduceMax", {1, 11, 12, 13, 18, 20}, 18, extremum(Reduce::max, Reduce::logical_or));
const auto reduce_min =
    reduce_operator("ReduceMin", {1, 11, 12, 13, 18, 20}, 18, extremum(Reduce::min, Reduce::logical_and));

const auto reduce_sum = reduce_operator("ReduceSum", {1, 11, 13}, 13, [](Graph& g, Var* x, const std::vector<int>& axes) {
  require_numeric(x);
  return sum(g, x, axes);
});
const auto reduce_prod =
    reduce_operator("ReduceProd", {1, 11, 13, 18}, 18, [](Graph& g, Var* x, const std::vector<int>& axes) {
      require_numeric(x);
      return keep(g, x, axes, Reduce::mul);
    });
const auto reduce_mean =
    reduce_operator("ReduceMean", {1, 11, 13, 18}, 18, [](Graph& g, Var* x, const std::vector<int>& axes) {
      require_numeric(x);
      return axes.empty() ? x : mean(g, x, axes, true);
    });
const auto reduce_l1 = reduce_operator("ReduceL1", {1, 11, 13, 18}, 18, [](Graph& g, Var* x, const std::vector<int>& axes) {
  require_numeric(x);
  return sum(g, is_float(x->dtype()) || is_signed(x->dtype()) ? map(g, Fn::abs, x) : x, axes);
});
const auto reduce_l2 = reduce_operator("ReduceL2", {1, 11, 13, 18}, 18, [](Graph& g, Var* x, const std::vector<int>& axes) {
  require_numeric(x);
  Var* total = sum(g, squares(g, x), axes);
  if (!is_float(x->dtype())) total = cast(g, total, DType::f64);
  return elementwise(g, {total}, [](const std::vector<Expr>& v) { return root_of_squares(v[0]); });
});
const auto reduce_sum_square =
    reduce_operator("ReduceSumSquare", {1, 11, 13, 18}, 18, [](Graph& g, Var* x, const std::vector<int>& axes) {
      require_numeric(x);
      return sum(g, squares(g, x), axes);
    });
const auto reduce_log_sum =
    reduce_operator("ReduceLogSum", {1, 11, 13, 18, 28}, 18, [](Graph& g, Var* x, const std::vector<int>& axes) {
      require_float(x);
      return map(g, Fn::log, sum(g, x, axes));
    });
const auto reduce_log_sum_exp =
    reduce_operator("ReduceLogSumExp", {1, 11, 13, 18, 28}, 18, [](Graph& g, Var* x, const std::vector<int>& axes) {
      require_float(x);
      return axes.empty() ? x : log_sum_exp(g, x, axes);
    });

}  // namespace
}  // namespace metac
