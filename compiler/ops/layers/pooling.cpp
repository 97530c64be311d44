// MaxPool, AveragePool, LpPool and their global forms: a reindex that makes the windows and a reduction over them.
#include "compiler/ops/layers/pooling.h"

#include "compiler/ops/layers/windows.h"
#include "compiler/ops/pointwise/arithmetic.h"
#include "compiler/ops/sums/reductions.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

struct Pool {
  std::vector<Window> windows;
  bool ceil_mode = false;
  Shape result, domain;  // [N, C, out...] and [N, C, out..., kernel...]
};

Pool plan_pool(Lowering& n, Var* x) {
  require_rank_at_least(x, 3, "X");
  Pool p;
  p.windows = plan_windows(n, n.graph(), spatial_dims(x->shape()));
  p.ceil_mode = n.integer("ceil_mode", 0) != 0;
  p.result = {x->shape()[0], x->shape()[1]};
  for (size_t i = 0; i < p.windows.size(); ++i) {
    const Window& w = p.windows[i];
    for (Expr pad : {w.pad_before, w.pad_after})
      if (pad.if_int())
        n.graph().require(pad < w.span(),
                          concat("a window of ", to_string(w.span()), " elements could lie in the padding of ",
                                 to_string(pad), " of spatial axis ", i));
    p.result.push_back(w.out);
  }
  p.domain = p.result;
  for (const Window& w : p.windows) p.domain.push_back(w.kernel);
  return p;
}

// The windows of x as a tensor of p.domain; padding reads `fill`.
Var* windows_of(Graph& g, Var* x, const Pool& p, Expr fill) {
  std::vector<Expr> indices{axis(0), axis(1)}, conditions;
  int axes = static_cast<int>(p.windows.size());
  for (int i = 0; i < axes; ++i) {
    indices.push_back(p.windows[i].source(axis(2 + i), axis(2 + axes + i)));
    p.windows[i].add_conditions(indices.back(), p.ceil_mode, conditions);
  }
  return g.reindex({x}, p.domain, indices, conditions, fill);
}

Var* reduce_windows(Graph& g, Var* windows, const Pool& p, Reduce op) {
  return g.reindex_reduce({windows}, p.result, identity_indices(static_cast<int>(p.result.size())), op);
}

// Of the elements of each window that equal its maximum, the least position in the tensor X (all of it, N and C included).
Var* positions_of_maxima(Lowering& n, Var* x, Var* windows, Var* maxima, const Pool& p) {
  Graph& g = n.graph();
  int axes = static_cast<int>(p.windows.size()), rank = static_cast<int>(p.domain.size());
  bool column_major = n.integer("storage_order", 0) == 1;
  std::vector<Expr> source, conditions;
  for (int i = 0; i < axes; ++i) {
    source.push_back(p.windows[i].source(axis(2 + i), axis(2 + axes + i)));
    p.windows[i].add_conditions(source.back(), p.ceil_mode, conditions);
  }
  Shape spatial = spatial_dims(x->shape());
  Expr within = 0;
  for (int k = 0; k < axes; ++k) {
    int i = column_major ? axes - 1 - k : k;
    within = within * spatial[i] + source[i];
  }
  Expr position = (axis(0) * x->shape()[1] + axis(1)) * element_count(spatial) + within;
  Expr value = load(0, x->dtype(), identity_indices(rank)), top = load(1, x->dtype(), identity_indices(2 + axes));
  Expr is_top = equal(value, top);
  if (is_float(x->dtype())) is_top = logical_or(is_top, logical_and(call(Fn::is_nan, {value}), call(Fn::is_nan, {top})));
  for (Expr condition : conditions) is_top = logical_and(is_top, condition);
  Var* candidates = g.elementwise({windows, maxima}, p.domain, select(is_top, position, element_count(x->shape())));
  return reduce_windows(g, candidates, p, Reduce::min);
}

void lower_max_pool(Lowering& n) {
  Graph& g = n.graph();
  Var* x = n.input(0);
  require_numeric(x, "X");
  int64_t order = n.integer("storage_order", 0);
  if (order != 0 && order != 1) fail("storage_order must be 0 or 1, found ", order);
  Pool p = plan_pool(n, x);
  Var* windows = windows_of(g, x, p, identity_of(Reduce::max, x->dtype()));
  Var* maxima = reduce_windows(g, windows, p, Reduce::max);
  n.set_output(0, maxima);
  if (n.wants_output(1)) n.set_output(1, positions_of_maxima(n, x, windows, maxima, p));
}

// How many elements of the window at out index `o` count along one axis: those inside the operand, or, with
// count_include_pad, inside the padded operand (a window of ceil_mode may reach further still).
Expr counted(const Window& w, Expr o, bool include_pad, bool ceil_mode) {
  Expr start = o * Expr(w.stride) - w.pad_before;
  Expr first = 0, last = w.kernel - Expr(1);
  if (!include_pad && !w.pad_before.is_int(0)) first = max(ceil_div(-start, w.dilation), 0);
  Expr end = include_pad ? w.in + w.pad_after : w.in;
  bool reaches_end = ceil_mode || (!include_pad && (!w.pad_after.is_int(0) || !w.pad_before.is_int(0)));
  if (reaches_end) last = min(last, floor_div(end - Expr(1) - start, w.dilation));
  return last - first + Expr(1);
}

}  // namespace

Var* average_windows(Lowering& n, Var* x) {
  Graph& g = n.graph();
  Pool p = plan_pool(n, x);
  bool include_pad = n.integer("count_include_pad", 0) != 0;
  Var* sums = reduce_windows(g, windows_of(g, x, p, constant_of(x->dtype(), 0)), p, Reduce::add);
  Expr count = 1;
  for (size_t i = 0; i < p.windows.size(); ++i)
    count = count * counted(p.windows[i], axis(2 + static_cast<int>(i)), include_pad, p.ceil_mode);
  return elementwise(g, {sums}, [&](const std::vector<Expr>& v) { return v[0] / cast(count, v[0]->dtype); });
}

namespace {

void lower_average_pool(Lowering& n) {
  Graph& g = n.graph();
  Var* x = n.input(0);
  require_float(x, "X");
  n.set_output(0, cast(g, average_windows(n, widen(g, x)), x->dtype()));
}

// sum(|x|^p)^(1/p); 1 and 2 without pow.
double norm_order(Lowering& n) {
  double p = n.node().attributes.count("p") && n.node().attributes.at("p").kind == Attribute::Kind::real
                 ? n.real("p", 2)
                 : static_cast<double>(n.integer("p", 2));
  if (!(p > 0)) fail("p must be positive, found ", p);
  return p;
}
Var* raise(Graph& g, Var* x, double p) {
  return elementwise(g, {x}, [p](const std::vector<Expr>& v) {
    if (p == 2) return v[0] * v[0];
    Expr magnitude = call(Fn::abs, {v[0]});
    return p == 1 ? magnitude : call(Fn::pow, {magnitude, constant_like(v[0], p)});
  });
}
Var* root(Graph& g, Var* x, double p) {
  return elementwise(g, {x}, [p](const std::vector<Expr>& v) {
    if (p == 1) return v[0];
    if (p == 2) return root_of_squares(v[0]);
    // As for the square root: the derivative of what has no norm is 0.
    const Expr none = constant_like(v[0], 0);
    return select(equal(v[0], none), none, call(Fn::pow, {v[0], constant_like(v[0], 1 / p)}));
  });
}

void lower_lp_pool(Lowering& n) {
  Graph& g = n.graph();
  Var* x = n.input(0);
  require_float(x, "X");
  double p = norm_order(n);
  Pool pool = plan_pool(n, x);
  Var* powers = raise(g, widen(g, x), p);
  Var* sums = reduce_windows(g, windows_of(g, powers, pool, constant_of(powers->dtype(), 0)), pool, Reduce::add);
  n.set_output(0, cast(g, root(g, sums, p), x->dtype()));
}

// ---- global ----
LowerFunction global_pool(std::function<Var*(Lowering&, Graph&, Var*, const std::vector<int>&)> body) {
  return [body](Lowering& n) {
    Graph& g = n.graph();
    Var* x = n.input(0);
    require_float(x, "X");
    require_rank_at_least(x, 2, "X");
    n.set_output(0, cast(g, body(n, g, widen(g, x), axes_from(2, x->rank())), x->dtype()));
  };
}

METAC_OPERATOR("MaxPool")
    .since({1, 8, 10, 11, 12, 22})
    .inputs(1)
    .outputs(1, 2)
    .required("kernel_shape", Kind::integers)
    .attribute("pads", Kind::integers)
    .attribute("auto_pad", Kind::string)
    .attribute("strides", Kind::integers)
    .attribute("storage_order", Kind::integer, 8)
    .attribute("dilations", Kind::integers, 10)
    .attribute("ceil_mode", Kind::integer, 10)
    .lower(lower_max_pool);
METAC_OPERATOR("AveragePool")
    .since({1, 7, 10, 11, 19, 22})
    .inputs(1)
    .outputs(1)
    .required("kernel_shape", Kind::integers)
    .attribute("pads", Kind::integers)
    .attribute("auto_pad", Kind::string)
    .attribute("strides", Kind::integers)
    .attribute("count_include_pad", Kind::integer, 7)
    .attribute("ceil_mode", Kind::integer, 10)
    .attribute("dilations", Kind::integers, 19)
    .lower(lower_average_pool);
METAC_OPERATOR("LpPool")
    .since({1, 2, 11, 18, 22})
    .inputs(1)
    .outputs(1)
    .attribute("kernel_shape", Kind::integers)
    .attribute("pads", Kind::integers)
    .attribute("auto_pad", Kind::string)
    .attribute("strides", Kind::integers)
    .attribute("p", Kind::integer, 2)
    .attribute("ceil_mode", Kind::integer, 18)
    .attribute("dilations", Kind::integers, 18)
    .attribute("p", Kind::real, 1, 2)
    .lower(lower_lp_pool);
METAC_OPERATOR("GlobalMaxPool")
    .since({1, 22})
    .inputs(1)
    .outputs(1)
    .lower(global_pool([](Lowering&, Graph& g, Var* x, const std::vector<int>& axes) {
      return reduce(g, x, axes, Reduce::max, true);
    }));
METAC_OPERATOR("GlobalAveragePool")
    .since({1, 22})
    .inputs(1)
    .outputs(1)
    .lower(global_pool([](Lowering&, Graph& g, Var* x, const std::vector<int>& axes) { return mean(g, x, axes, true); }));
METAC_OPERATOR("GlobalLpPool")
    .since({1, 2, 22})
    .inputs(1)
    .outputs(1)
    .attribute("p", Kind::integer, 2)
    .attribute("p", Kind::real, 1, 2)
    .lower(global_pool([](Lowering& n, Graph& g, Var* x, const std::vector<int>& axes) {
      double p = norm_order(n);
      return root(g, reduce(g, raise(g, x, p), axes, Reduce::add, true), p);
    }));

}  // namespace
}  // namespace metac
