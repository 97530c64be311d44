// Attention: softmax(Q*K' * scale + bias) * V with everything that opsets 23 to 25 add: grouped heads, a cache, causal
// and sliding windows, padding, softcap. Masking is a condition in the element-wise body, not a tensor of biases, so that
// the whole of it is contraction, element-wise, row maximum and sum, contraction: what streaming softmax fuses.
#include "compiler/ops/layers/attention.h"

#include <cmath>

#include "compiler/ops/onnx_dtypes.h"
#include "compiler/ops/pointwise/arithmetic.h"
#include "compiler/ops/sums/softmax.h"

namespace metac {

Var* repeat_heads(Graph& g, Var* x, Dim heads) {
  Dim own = x->shape()[1];
  if (own == heads) return x;
  g.require(equal(floor_mod(heads, own), 0),
            concat("the ", to_string(own), " heads of K and V must divide the ", to_string(heads), " heads of Q"));
  return g.reindex({x}, {x->shape()[0], heads, x->shape()[2], x->shape()[3]},
                   {axis(0), floor_div(axis(1), floor_div(heads, own)), axis(2), axis(3)});
}

Var* attention_scores(Graph& g, Var* q, Var* k, std::optional<double> stated) {
  require_equal(g, q->shape()[3], k->shape()[3],
                concat("head sizes of Q ", to_string(q->shape()), " and K ", to_string(k->shape())));
  DType dtype = q->dtype();
  Expr scale =
      stated ? float_constant(*stated, dtype) : constant_of(dtype, 1) / call(Fn::sqrt, {cast(q->shape()[3], dtype)});
  Var* scaled = elementwise(g, {q}, [&](const std::vector<Expr>& e) { return e[0] * scale; });
  return matmul(g, scaled, transpose(g, k, {0, 1, 3, 2}));
}

Var* split_heads(Graph& g, Var* x, int64_t heads, std::string_view what) {
  if (x->rank() == 4) return x;
  require_rank(x, 3, what);
  if (heads < 1) fail("the number of heads of ", what, " must be at least 1, found ", heads);
  Expr width = x->shape()[2];
  g.require(equal(floor_mod(width, heads), 0),
            concat(heads, " heads must divide the last axis of ", what, " ", to_string(x->shape())));
  Var* split = reshape(g, x, {x->shape()[0], x->shape()[1], heads, floor_div(width, heads)});
  return transpose(g, split, {0, 2, 1, 3});
}

Var* merge_heads(Graph& g, Var* x) {
  Var* y = transpose(g, x, {0, 2, 1, 3});
  return reshape(g, y, {y->shape()[0], y->shape()[1], y->shape()[2] * y->shape()[3]});
}

Var* masked_softmax(Graph& g, Var* x) {
  Var* top = reduce(g, x, {3}, Reduce::max, true);
  Var* powers = elementwise(g, {x, top}, [](const std::vector<Expr>& v) {
    Expr all_masked = equal(v[1], constant_like(v[1], -INFINITY));
    return call(Fn::exp, {v[0] - select(all_masked, constant_like(v[1], 0), v[1])});
  });
  return elementwise(g, {powers, reduce(g, powers, {3}, Reduce::add, true)}, [](const std::vector<Expr>& v) {
    return v[0] / select(equal(v[1], constant_like(v[1], 0)), constant_like(v[1], 1), v[1]);
  });
}

Var* softmax_with_sink(Graph& g, Var* x, Var* sink) {
  Var* extra = scalar(g, x->dtype(), 0);
  if (sink) {
    require_equal(g, sink->shape()[0], x->shape()[1], "the sinks of heads against the heads");
    extra = cast(g, unsqueeze(g, sink, {1, 2}), x->dtype());
  }
  Var* top = map(g, Fn::max, reduce(g, x, {3}, Reduce::max, true), extra);
  Var* powers = elementwise(g, {x, top}, [](const std::vector<Expr>& v) { return call(Fn::exp, {v[0] - v[1]}); });
  Var* total = elementwise(g, {reduce(g, powers, {3}, Reduce::add, true), extra, top},
                           [](const std::vector<Expr>& v) { return v[0] + call(Fn::exp, {v[1] - v[2]}); });
  return elementwise(g, {powers, total}, [](const std::vector<Expr>& v) { return v[0] / v[1]; });
}

namespace {

using Kind = Attribute::Kind;

// Which keys a query sees, and what is added to its scores.
struct Masking {
  std::vector<Var*> operands;  // beside the scores
  int mask = 0, lengths = 0;   // their operand numbers; 0: none
  bool causal = false, any = false;
  int64_t left = -1, right = -1;
  Expr past = 0, queries;

  // At [batch, head, query, key] of the scores.
  Expr apply(Expr score, const std::vector<Expr>& loads) const {
    Expr allowed = bool_constant(true);
    Expr query = axis(2), key = axis(3), offset = past;
    if (lengths) {
      Expr length = cast(loads[lengths], DType::i64);
      allowed = logical_and(allowed, key < length);
      offset = length - queries;
    }
    if (causal) allowed = logical_and(allowed, key <= query + offset);
    if (left >= 0) allowed = logical_and(allowed, query + offset - Expr(left) <= key);
    if (right >= 0) allowed = logical_and(allowed, key <= query + offset + Expr(right));
    if (mask) {
      if (is_bool(loads[mask]->dtype))
        allowed = logical_and(allowed, loads[mask]);
      else
        score = score + cast(loads[mask], score->dtype);
    }
    return select(allowed, score, constant_like(score, -INFINITY));
  }
};

Masking masking_of(Lowering& n, const Shape& scores, Expr past) {
  Graph& g = n.graph();
  Masking m;
  m.causal = n.integer("is_causal", 0) != 0;
  m.left = n.integer("left_window_size", -1);
  m.right = n.integer("right_window_size", -1);
  for (auto [value, name] : {std::pair(m.left, "left_window_size"), std::pair(m.right, "right_window_size")})
    if (value < -1 || value >= int64_t{1} << 40) fail(name, " must be -1 or not negative, found ", value);
  m.past = past;
  m.queries = scores[2];
  if (Var* mask = n.optional_input(3)) {
    if (!is_bool(mask->dtype()) && !is_float(mask->dtype()))
      fail("attn_mask must be bool or floating point, found ", name_of(mask->dtype()));
    if (mask->rank() < 1 || mask->rank() > 4)
      fail("attn_mask must have 1 to 4 axes, its shape is ", to_string(mask->shape()));
    // Keys that the mask does not reach are not seen.
    int last = mask->rank() - 1;
    Dim width = mask->shape()[last];
    if (width != scores[3]) {
      Shape shape = mask->shape();
      shape[last] = scores[3];
      Expr unseen = is_bool(mask->dtype()) ? bool_constant(false) : float_constant(-INFINITY, mask->dtype());
      mask = g.reindex({mask}, shape, identity_indices(mask->rank()), {axis(last) < width}, unseen);
    }
    m.operands.push_back(broadcast_to(g, mask, scores));
    m.mask = static_cast<int>(m.operands.size());
  }
  if (Var* lengths = n.optional_input(6)) {
    require_integer(lengths, "nonpad_kv_seqlen");
    require_rank(lengths, 1, "nonpad_kv_seqlen");
    m.operands.push_back(broadcast_to(g, unsqueeze(g, lengths, {1, 2, 3}), scores));
    m.lengths = static_cast<int>(m.operands.size());
  }
  m.any = m.causal || m.left >= 0 || m.right >= 0 || !m.operands.empty();
  return m;
}

void lower_attention(Lowering& n) {
  Graph& g = n.graph();
  Var *q = n.input(0), *k = n.input(1), *v = n.input(2), *past_key = n.optional_input(4), *past_value = n.optional_input(5);
  DType dtype = q->dtype();
  require_float(q, "Q");
  require_same_dtype(q, k, "Q", "K");
  if (q->rank() != k->rank() || q->rank() != v->rank())
    fail("Q, K and V must have as many axes: ", to_string(q->shape()), ", ", to_string(k->shape()), ", ",
         to_string(v->shape()));
  if ((past_key == nullptr) != (past_value == nullptr)) fail("past_key and past_value must be given together");
  if (past_key && n.optional_input(6)) fail("nonpad_kv_seqlen and past_key exclude each other");
  bool three_axes = q->rank() == 3;
  int64_t q_heads = n.integer("q_num_heads", 0), kv_heads = n.integer("kv_num_heads", 0);
  q = split_heads(g, q, q_heads, "Q");
  k = split_heads(g, k, kv_heads, "K");
  v = split_heads(g, v, kv_heads, "V");
  Expr past = 0;
  if (past_key) {
    require_rank(past_key, 4, "past_key");
    require_rank(past_value, 4, "past_value");
    past = past_key->shape()[2];
    k = concat(g, {past_key, k}, 2);
    v = concat(g, {past_value, v}, 2);
  }
  if (n.wants_output(1)) n.set_output(1, k);
  if (n.wants_output(2)) n.set_output(2, v);
  for (Var* other : {k, v}) require_equal(g, other->shape()[0], q->shape()[0], "the batches of Q, K and V must agree");
  require_equal(g, k->shape()[2], v->shape()[2],
                concat("lengths of K ", to_string(k->shape()), " and V ", to_string(v->shape())));

  Dim heads = q->shape()[1];
  Var *wide_k = widen(g, repeat_heads(g, k, heads)), *wide_v = widen(g, repeat_heads(g, v, heads));
  DType wide = wide_v->dtype();
  std::optional<double> scale;
  if (n.has("scale")) scale = n.real("scale", 1);
  Var* scores = attention_scores(g, widen(g, q), wide_k, scale);
  int64_t mode = n.integer("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) fail("qk_matmul_output_mode must be 0 to 3, found ", mode);
  Var* seen[4] = {scores, nullptr, nullptr, nullptr};
  if (double softcap = n.real("softcap", 0); softcap > 0)
    scores = elementwise(g, {scores}, [&](const std::vector<Expr>& e) {
      Expr cap = constant_like(e[0], softcap);
      return call(Fn::tanh, {e[0] / cap}) * cap;
    });
  seen[1] = scores;
  Masking masking = masking_of(n, scores->shape(), past);
  if (masking.any) {
    std::vector<Var*> operands{scores};
    operands.insert(operands.end(), masking.operands.begin(), masking.operands.end());
    scores = elementwise(g, operands, [&](const std::vector<Expr>& e) { return masking.apply(e[0], e); });
  }
  seen[2] = scores;
  if (int64_t precision = n.integer("softmax_precision", 0)) {
    DType stated = arithmetic_dtype(require_onnx_dtype(precision, "softmax_precision"));
    if (!is_float(stated)) fail("softmax_precision must be a floating-point type, found ", name_of(stated));
    scores = cast(g, scores, stated);
  }
  Var* weights = cast(g, masking.any ? masked_softmax(g, scores) : softmax(g, scores, {3}), wide);
  seen[3] = weights;
  if (n.wants_output(3)) n.set_output(3, cast(g, seen[mode], dtype));
  Var* y = cast(g, matmul(g, weights, wide_v), dtype);
  n.set_output(0, three_axes ? merge_heads(g, y) : y);
}

METAC_OPERATOR("Attention")
    .since({23, 24, 25})
    .inputs(3, 7)
    .outputs(1, 4)
    .attribute("qk_matmul_output_mode", Kind::integer)
    .attribute("softcap", Kind::real)
    .attribute("softmax_precision", Kind::integer)
    .attribute("kv_num_heads", Kind::integer)
    .attribute("q_num_heads", Kind::integer)
    .attribute("scale", Kind::real)
    .attribute("is_causal", Kind::integer)
    .attribute("right_window_size", Kind::integer, 25)
    .attribute("left_window_size", Kind::integer, 25)
    .lower(lower_attention);

}  // namespace
}  // namespace metac
