// LinearAttention: a matrix per head carried over time. With the decay exp(g) and the rate beta, a step is
//   S <- exp(g) * S,  v <- beta * (v - S'k) in the delta rules,  S <- S + k (x) v,  o = scale * S'q.
#include "compiler/ops/control/carried_loop.h"
#include "compiler/ops/pointwise/arithmetic.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

// [B, T, heads*D] -> [T, B, heads, D], widened.
Var* by_time(Graph& g, Var* x, int64_t heads, std::string_view what) {
  require_rank(x, 3, what);
  Expr width = x->shape()[2];
  g.require(equal(floor_mod(width, heads), 0),
            concat(heads, " heads must divide the last axis of ", what, " ", to_string(x->shape())));
  Expr size = floor_div(width, heads);
  return g.reindex({widen(g, x)}, {x->shape()[1], x->shape()[0], heads, size}, {axis(1), axis(0), axis(2) * size + axis(3)});
}

// One rate per head, or one for all: [B, T, heads or 1] -> [T, B, heads or 1, 1], widened.
Var* rates_by_time(Graph& g, Var* beta, int64_t heads) {
  require_rank(beta, 3, "beta");
  Expr width = beta->shape()[2], one = equal(width, Expr(1));
  if (width.if_int()) return by_time(g, beta, width.is_int(1) ? 1 : heads, "beta");
  g.require(logical_or(one, equal(width, Expr(heads))),
            concat("the last axis of beta ", to_string(beta->shape()), " must be ", heads, " heads or 1"));
  return g.reindex({widen(g, beta)}, {beta->shape()[1], beta->shape()[0], heads, 1},
                   {axis(1), axis(0), select(one, Expr(0), axis(2))});
}

Var* at_time(Graph& g, Var* x, Expr t) {
  return g.reindex({x}, {x->shape()[1], x->shape()[2], x->shape()[3]}, {t, axis(0), axis(1), axis(2)});
}

void lower_linear_attention(Lowering& n) {
  Graph& g = n.graph();
  Var *q = n.input(0), *k = n.input(1), *v = n.input(2), *past = n.optional_input(3), *decay = n.optional_input(4),
      *beta = n.optional_input(5);
  require_float(q, "query");
  DType dtype = q->dtype(), state_dtype = past ? past->dtype() : dtype;
  int64_t q_heads = n.integer("q_num_heads", 0), heads = n.integer("kv_num_heads", 0);
  if (heads < 1 || q_heads < 1 || q_heads % heads != 0)
    fail("q_num_heads ", q_heads, " must be a positive multiple of kv_num_heads ", heads);
  std::string rule = n.string("update_rule", "gated_delta");
  bool gated = rule == "gated" || rule == "gated_delta", delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !delta && rule != "linear")
    fail("update_rule must be linear, gated, delta or gated_delta, found ", quoted(rule));
  if (gated != (decay != nullptr)) fail("update_rule ", rule, gated ? " needs" : " takes no", " decay");
  if (delta != (beta != nullptr)) fail("update_rule ", rule, delta ? " needs" : " takes no", " beta");
  q = by_time(g, q, q_heads, "query");
  k = by_time(g, k, heads, "key");
  v = by_time(g, v, heads, "value");
  Dim steps = q->shape()[0], batch = q->shape()[1], key_size = k->shape()[3], value_size = v->shape()[3];
  require_equal(g, q->shape()[3], key_size, "head sizes of query and key");
  if (decay) decay = by_time(g, decay, heads, "decay");  // [T, B, heads, key_size or 1]
  if (beta) beta = rates_by_time(g, beta, heads);
  Shape state_shape{batch, heads, key_size, value_size};
  DType wide = q->dtype();
  Var* state = past ? widen(g, past) : fill(g, state_shape, constant_of(wide, 0));
  if (past) {
    require_rank(past, 4, "past_state");
    for (int i = 0; i < 4; ++i)
      require_equal(g, past->shape()[i], state_shape[i],
                    concat("past_state ", to_string(past->shape()), " against ", to_string(state_shape)));
  }
  double stated = n.real("scale", 0);
  Expr scale = stated != 0 ? float_constant(stated, wide) : constant_of(wide, 1) / call(Fn::sqrt, {cast(key_size, wide)});

  CarriedLoop loop;
  loop.trip_count = fill(g, {}, steps);
  loop.trips = steps;
  loop.initial = {state};
  Op* op = loop.build(g, [&](Expr t, const std::vector<Var*>& carried) -> std::vector<Var*> {
    Var *s = carried[0], *key = unsqueeze(g, at_time(g, k, t), {3}), *value = at_time(g, v, t);
    if (gated)
      s = elementwise(g, {s, unsqueeze(g, at_time(g, decay, t), {3})},
                      [](const std::vector<Expr>& e) { return e[0] * call(Fn::exp, {e[1]}); });
    if (delta) {
      Var* found = reduce(g, map(g, Fn::mul, s, key), {2}, Reduce::add, false);
      value = elementwise(g, {value, found, at_time(g, beta, t)},
                          [](const std::vector<Expr>& e) { return e[2] * (e[0] - e[1]); });
    }
    s = elementwise(g, {s, key, unsqueeze(g, value, {2})}, [](const std::vector<Expr>& e) { return e[0] + e[1] * e[2]; });
    Var* query = elementwise(g, {at_time(g, q, t)}, [&](const std::vector<Expr>& e) { return e[0] * scale; });
    Var* shared = s;  // query head h reads the state of head h / group
    if (q_heads != heads)
      shared = g.reindex({s}, {batch, q_heads, key_size, value_size},
                         {axis(0), floor_div(axis(1), q_heads / heads), axis(2), axis(3)});
    Var* out = reduce(g, map(g, Fn::mul, shared, unsqueeze(g, query, {3})), {2}, Reduce::add, false);
    return {nullptr, s, out};
  });
  Var* out = op->outputs[1];  // [T, B, q_heads, value_size]
  n.set_output(0, cast(g,
                       g.reindex({out}, {batch, steps, Expr(q_heads) * value_size},
                                 {axis(1), axis(0), floor_div(axis(2), value_size), floor_mod(axis(2), value_size)}),
                       dtype));
  n.set_output(1, cast(g, op->outputs[0], state_dtype));
}

METAC_OPERATOR("LinearAttention")
    .since({27})
    .inputs(3, 6)
    .outputs(2)
    .attribute("chunk_size", Kind::integer)
    .required("kv_num_heads", Kind::integer)
    .required("q_num_heads", Kind::integer)
    .attribute("scale", Kind::real)
    .attribute("update_rule", Kind::string)
    .lower(lower_linear_attention);

}  // namespace
}  // namespace metac
