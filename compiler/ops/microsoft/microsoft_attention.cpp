// ONNX Runtime's attention operators (domain com.microsoft): Attention and QAttention project one input to Q, K and V,
// MultiHeadAttention takes them as they are. Masks add `mask_filter_value` to the scores of keys that are not seen.
#include <cmath>

#include "compiler/ops/layers/attention.h"
#include "compiler/ops/microsoft/microsoft_domain.h"
#include "compiler/ops/pointwise/arithmetic.h"
#include "compiler/ops/quantized/quantization.h"
#include "compiler/ops/shape_operands.h"
#include "compiler/ops/sums/softmax.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

// The mask of keys as int32: [B] or [3B + 2]: how many are seen, [2B]: also where they begin, [B, T], [B, S, T] or [B, 1, M,
// M]: 0 where a key is not seen.
Var* mask_keys(Graph& g, Var* scores, Var* mask, double filter) {
  require_integer(mask, "the mask");
  Dim batch = scores->shape()[0], keys = scores->shape()[3], queries = scores->shape()[2];
  auto at = [&](std::vector<Expr> indices) { return cast(load(1, mask->dtype(), std::move(indices)), DType::i64); };
  Expr seen;
  if (mask->rank() == 1) {
    Dim length = mask->shape()[0];
    seen = axis(3) < at({axis(0)});
    // Where the beginnings stand behind the ends; with one entry per batch element, an entry that is there.
    Expr begins = equal(length, batch * Expr(2)), begin = at({axis(0) + select(begins, batch, Expr(0))});
    g.require(logical_or(logical_or(equal(length, batch), begins), equal(length, batch * Expr(3) + Expr(2))),
              concat("a mask of rank 1 has 1, 2 or (3B + 2)/B entries per batch element, its shape is ",
                     to_string(mask->shape())));
    if (!begins.is_int(0)) seen = logical_and(seen, logical_or(logical_not(begins), begin <= axis(3)));
  } else if (mask->rank() == 2) {
    seen = Expr(0) < at({axis(0), axis(3)});
  } else if (mask->rank() == 3) {
    seen = Expr(0) < at({axis(0), axis(2), axis(3)});
  } else if (mask->rank() == 4) {
    seen = Expr(0) < at({axis(0), Expr(0), keys - queries + axis(2), axis(3)});
  } else {
    fail("the mask must have rank 1 to 4, its shape is ", to_string(mask->shape()));
  }
  if (mask->rank() > 1) require_equal(g, mask->shape()[0], batch, "the batch of the mask");
  if (mask->rank() == 2 || mask->rank() == 3) require_equal(g, mask->shape().back(), keys, "the keys of the mask");
  if (mask->rank() == 3) require_equal(g, mask->shape()[1], queries, "the queries of the mask");
  if (mask->rank() == 4) require_equal(g, mask->shape()[1], 1, "the second axis of the mask");
  if (mask->rank() == 4)
    for (int k = 2; k < 4; ++k)
      g.require(keys <= mask->shape()[k],
                concat("a mask of shape ", to_string(mask->shape()), " must reach all ", to_string(keys), " keys"));
  DType dtype = scores->dtype();
  Expr score = load(0, dtype, identity_indices(4));
  return g.elementwise({scores, mask}, scores->shape(), select(seen, score, score + constant_of(dtype, filter)));
}

struct Heads {
  Var *q, *k, *v;  // [B, heads, S or T, D], widened
  Var *mask = nullptr, *bias = nullptr;
  bool causal = false;
  Expr past = 0;  // how many keys stand before the first query's own
};

// softmax(Q*K'*scale + masks) * V -> [B, S, heads*D]. `scores_out`: the scores before the softmax.
Var* attend(Lowering& n, const Heads& h, Var** scores_out = nullptr) {
  Graph& g = n.graph();
  std::optional<double> scale;
  if (double stated = n.real("scale", 0); stated != 0) scale = stated;
  Var* scores = attention_scores(g, h.q, h.k, scale);
  if (h.mask) scores = mask_keys(g, scores, h.mask, n.real("mask_filter_value", -10000));
  if (h.bias) scores = map(g, Fn::add, scores, broadcast_to(g, widen(g, h.bias), scores->shape()));
  if (h.causal)
    scores = elementwise(g, {scores}, [&](const std::vector<Expr>& v) {
      return select(axis(3) <= axis(2) + h.past, v[0], constant_like(v[0], -INFINITY));
    });
  if (scores_out) *scores_out = scores;
  return merge_heads(g, matmul(g, softmax(g, scores, {3}), h.v));
}

// The columns [first, first + width) of x [B, S, all], as heads.
Var* head_columns(Graph& g, Var* x, Expr first, Expr width, int64_t heads, std::string_view what) {
  return split_heads(g, slice(g, x, {2}, {first}, {width}, {1}), heads, what);
}

int64_t heads_of(Lowering& n) {
  int64_t heads = n.integer("num_heads", 0);
  if (heads < 1) fail("num_heads must be at least 1, found ", heads);
  return heads;
}

// projected [B, S, all of Q, K and V]; past [2, B, heads, P, D] or null.
void attend_projected(Lowering& n, Var* projected, Var* mask, Var* past, Var* bias, DType dtype) {
  Graph& g = n.graph();
  for (const char* unsupported : {"do_rotary", "past_present_share_buffer"})
    if (n.integer(unsupported, 0) != 0) fail(unsupported, " is not supported");
  int64_t heads = heads_of(n);
  Dim all = projected->shape()[2];
  std::vector<Expr> widths;
  for (int64_t size : n.integers("qkv_hidden_sizes")) widths.push_back(size);
  if (widths.empty()) {
    g.require(equal(floor_mod(all, 3), Expr(0)),
              concat("the ", to_string(all), " columns of the weights must be Q, K and V"));
    widths.assign(3, floor_div(all, 3));
  }
  if (widths.size() != 3) fail("qkv_hidden_sizes must have 3 entries");
  require_equal(g, widths[0] + widths[1] + widths[2], all, "qkv_hidden_sizes against the columns of the weights");
  Heads h{head_columns(g, projected, 0, widths[0], heads, "Q"),
          head_columns(g, projected, widths[0], widths[1], heads, "K"),
          head_columns(g, projected, widths[0] + widths[1], widths[2], heads, "V"),
          mask,
          bias,
          n.integer("unidirectional", 0) != 0};
  if (past) {
    require_rank(past, 5, "past");
    h.past = past->shape()[3];
    require_equal(g, past->shape()[0], 2, "past holds keys and values: its first axis");
    auto half = [&](int which) {
      return g.reindex({widen(g, past)}, Shape(past->shape().begin() + 1, past->shape().end()),
                       {which, axis(0), axis(1), axis(2), axis(3)});
    };
    h.k = concat(g, {half(0), h.k}, 2);
    h.v = concat(g, {half(1), h.v}, 2);
  }
  n.set_output(0, cast(g, attend(n, h), dtype));
  if (n.wants_output(1)) n.set_output(1, cast(g, concat(g, {unsqueeze(g, h.k, {0}), unsqueeze(g, h.v, {0})}, 0), dtype));
}

Var* add_bias(Graph& g, Var* x, Var* bias) {
  return bias ? map(g, Fn::add, x, broadcast_to(g, widen(g, bias), x->shape())) : x;
}

METAC_OPERATOR("Attention", microsoft_domain)
    .since({1})
    .inputs(2, 7)
    .outputs(1, 2)
    .attribute("num_heads", Kind::integer)
    .attribute("unidirectional", Kind::integer)
    .attribute("qkv_hidden_sizes", Kind::integers)
    .attribute("mask_filter_value", Kind::real)
    .attribute("scale", Kind::real)
    .attribute("do_rotary", Kind::integer)
    .attribute("rotary_embedding_dim", Kind::integer)
    .attribute("past_present_share_buffer", Kind::integer)
    .lower([](Lowering& n) {
      Graph& g = n.graph();
      Var *x = n.input(0), *weights = n.input(1);
      require_float(x, "input");
      require_same_dtypes(x, {weights, n.optional_input(2), n.optional_input(4), n.optional_input(5)},
                          "input, weights, bias, past and attention_bias");
      require_rank(x, 3, "input");
      require_rank(weights, 2, "weights");
      Var* projected = add_bias(g, matmul(g, widen(g, x), widen(g, weights)), n.optional_input(2));
      attend_projected(n, projected, n.optional_input(3), n.optional_input(4), n.optional_input(5), x->dtype());
    });

METAC_OPERATOR("QAttention", microsoft_domain)
    .since({1})
    .inputs(5, 9)
    .outputs(1, 2)
    .attribute("num_heads", Kind::integer)
    .attribute("unidirectional", Kind::integer)
    .attribute("mask_filter_value", Kind::real)
    .attribute("scale", Kind::real)
    .attribute("do_rotary", Kind::integer)
    .attribute("past_present_share_buffer", Kind::integer)
    .lower([](Lowering& n) {
      Graph& g = n.graph();
      Var *x = n.input(0), *weights = n.input(1), *x_zero = n.optional_input(6), *w_zero = n.optional_input(7);
      require_integer(x, "input");
      require_integer(weights, "weight");
      require_rank(x, 3, "input");
      require_rank(weights, 2, "weight");
      for (size_t i : {2, 3, 4})
        require_dtype(n.input(i), DType::f32, i == 2 ? "bias" : i == 3 ? "input_scale" : "weight_scale");
      if (n.optional_input(8)) require_dtype(n.input(8), DType::f32, "past");
      Dim columns = weights->shape()[1];
      x_zero = scalar_zero_point(g, x_zero, "input_zero_point");
      w_zero = zero_point_along(g, w_zero, 1, 2, columns, "weight_zero_point");
      Var* sums = matmul(g, subtract_zero_point(g, x, x_zero), subtract_zero_point(g, weights, w_zero));
      Var *x_scale = to_scalar(g, n.input(3), "input_scale"),
          *w_scale = along_axis(g, n.input(4), 2, 3, columns, "weight_scale");
      Var* projected = elementwise(g, {sums, x_scale, w_scale},
                                   [](const std::vector<Expr>& v) { return cast(v[0], DType::f32) * (v[1] * v[2]); });
      attend_projected(n, add_bias(g, projected, n.optional_input(2)), n.optional_input(5), n.optional_input(8), nullptr,
                       DType::f32);
    });

// Q [B, S, heads*D], K and V likewise or [B, heads, T, D]; or K and V together as key [B, T, heads, 2, D], or all as query
// [B, S, heads, 3, D].
Var* packed_part(Graph& g, Var* x, int part, int parts) {
  require_equal(g, x->shape()[3], parts, "the fourth axis of what is packed");
  Shape shape{x->shape()[0], x->shape()[2], x->shape()[1], x->shape()[4]};
  return g.reindex({x}, shape, {axis(0), axis(2), axis(1), Expr(part), axis(3)});
}

void lower_multi_head_attention(Lowering& n) {
  Graph& g = n.graph();
  Var *q = n.input(0), *k = n.optional_input(1), *v = n.optional_input(2), *bias = n.optional_input(3);
  require_float(q, "query");
  require_same_dtypes(q, {k, v, bias, n.optional_input(5), n.optional_input(6), n.optional_input(7)},
                      "query, key, value, biases and the past");
  if (n.optional_input(8) || n.optional_input(9)) fail("past_sequence_length and cache_indirection are not supported");
  int64_t heads = heads_of(n);
  DType dtype = q->dtype();
  Heads h;
  h.mask = n.optional_input(4);
  h.bias = n.optional_input(5);
  h.causal = n.integer("unidirectional", 0) != 0;
  if (q->rank() == 5) {
    h.q = packed_part(g, widen(g, q), 0, 3), h.k = packed_part(g, widen(g, q), 1, 3),
    h.v = packed_part(g, widen(g, q), 2, 3);
  } else {
    if (!k) fail("key is missing");
    require_rank(q, 3, "query");
    h.q = split_heads(g, widen(g, q), heads, "query");
    if (k->rank() == 5) {
      h.k = packed_part(g, widen(g, k), 0, 2), h.v = packed_part(g, widen(g, k), 1, 2);
    } else {
      if (!v) fail("value is missing");
      h.k = split_heads(g, widen(g, k), heads, "key");
      h.v = split_heads(g, widen(g, v), heads, "value");
    }
  }
  if (bias) {
    require_rank(bias, 1, "bias");
    Expr first = 0;
    for (Var** part : {&h.q, &h.k, &h.v}) {
      Expr size = (*part)->shape()[3];
      bool projected = part == &h.q || !k || k->rank() != 4;  // what comes as heads is projected already
      if (projected)
        *part = map(g, Fn::add, *part, g.reindex({widen(g, bias)}, (*part)->shape(), {first + axis(1) * size + axis(3)}));
      first = first + Expr(heads) * size;
    }
    require_equal(g, bias->shape()[0], first, "length of bias against Q, K and V");
  }
  if (Var* past_k = n.optional_input(6), *past_v = n.optional_input(7); past_k && past_v) {
    require_rank(past_k, 4, "past_key");
    require_rank(past_v, 4, "past_value");
    h.past = past_k->shape()[2];
    // As the next step reads them: half types are rounded before attention, not only on their way to it.
    Var *keys = concat(g, {past_k, cast(g, h.k, dtype)}, 2), *values = concat(g, {past_v, cast(g, h.v, dtype)}, 2);
    if (n.wants_output(1)) n.set_output(1, keys);
    if (n.wants_output(2)) n.set_output(2, values);
    h.k = widen(g, keys);
    h.v = widen(g, values);
  } else {
    if (n.wants_output(1)) n.set_output(1, cast(g, h.k, dtype));
    if (n.wants_output(2)) n.set_output(2, cast(g, h.v, dtype));
  }
  Var* scores = nullptr;
  n.set_output(0, cast(g, attend(n, h, &scores), dtype));
  if (n.wants_output(3)) n.set_output(3, cast(g, scores, dtype));
}
METAC_OPERATOR("MultiHeadAttention", microsoft_domain)
    .since({1})
    .inputs(1, 10)
    .outputs(1, 4)
    .required("num_heads", Kind::integer)
    .attribute("mask_filter_value", Kind::real)
    .attribute("scale", Kind::real)
    .attribute("unidirectional", Kind::integer)
    .lower(lower_multi_head_attention);

}  // namespace
}  // namespace metac
