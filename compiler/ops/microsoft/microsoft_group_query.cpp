// GroupQueryAttention and RotaryEmbedding of ONNX Runtime (domain com.microsoft), which decoders are exported with: a cache
// of keys and values that grows, rotary positions, a causal window that may be limited.
#include <cmath>

#include "compiler/ops/layers/attention.h"
#include "compiler/ops/layers/rotary_embedding.h"
#include "compiler/ops/microsoft/microsoft_domain.h"
#include "compiler/ops/pointwise/arithmetic.h"
#include "compiler/ops/shape_operands.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

// What rotates by cos_cache and sin_cache [positions, half]; position(): of the element at axes 0 (batch) and 2, of
// `operand`.
Rotation rotation_by(Graph& g, Var* cosines, Var* sines, Dim rotated, bool interleaved, Var* operand, Expr position) {
  require_rank(cosines, 2, "cos_cache");
  require_rank(sines, 2, "sin_cache");
  require_equal(g, cosines->shape()[1] * Expr(2), rotated, "rotated elements against cos_cache");
  for (int k = 0; k < 2; ++k) require_equal(g, sines->shape()[k], cosines->shape()[k], "sin_cache against cos_cache");
  g.require(Expr(1) <= cosines->shape()[0], "cos_cache has no rows");
  auto angle = [=](Var* cache) {
    return [=](Expr pair) -> Rotation::Angle { return {{cache, operand}, {safe_index(position, cache->shape()[0]), pair}}; };
  };
  return {rotated, interleaved, angle(cosines), angle(sines)};
}

void require_positions(Graph& g, Var* positions, Dim batch, Dim steps) {
  require_rank(positions, 2, "position_ids");
  require_equal(g, positions->shape()[0], batch, "the batch of position_ids");
  require_equal(g, positions->shape()[1], steps, "the length of position_ids");
}

METAC_OPERATOR("RotaryEmbedding", microsoft_domain)
    .since({1})
    .inputs(4)
    .outputs(1)
    .attribute("interleaved", Kind::integer)
    .attribute("num_heads", Kind::integer)
    .attribute("rotary_embedding_dim", Kind::integer)
    .attribute("scale", Kind::real)
    .attribute("is_packed_batching", Kind::integer)
    .lower([](Lowering& n) {
      Graph& g = n.graph();
      Var *x = n.input(0), *positions = n.input(1), *cosines = n.input(2);
      require_float(x, "input");
      require_same_dtypes(x, {cosines, n.input(3)}, "input, cos_cache and sin_cache");
      require_rank(cosines, 2, "cos_cache");
      require_integer(positions, "position_ids");
      if (n.real("scale", 1) != 1) fail("scale is not supported");
      bool three_axes = x->rank() == 3;
      int64_t stated = n.integer("rotary_embedding_dim", 0), heads = n.integer("num_heads", 0);
      Dim rotated = cosines->shape().back() * Expr(2);
      if (three_axes && heads == 0) {
        if (stated > 0) fail("rotary_embedding_dim needs num_heads where the input has rank 3");
        if (!x->shape()[2].if_int() || !rotated.if_int() || rotated.is_int(0))
          fail("num_heads must be given where the dims are open");
        heads = x->shape()[2].as_int() / rotated.as_int();
      }
      if (three_axes) x = split_heads(g, x, heads, "input");
      require_rank(x, 4, "input");
      if (stated > 0) rotated = stated;
      // One number: where the sequence begins; else a position each.
      bool one = positions->rank() == 1;
      if (one)
        require_equal(g, positions->shape()[0], 1, "a position_ids of rank 1 holds where the sequence begins; its entries");
      if (!one) require_positions(g, positions, x->shape()[0], x->shape()[2]);
      Expr position = one ? cast(load(1, positions->dtype(), {Expr(0)}), DType::i64) + axis(2)
                          : cast(load(1, positions->dtype(), {axis(0), axis(2)}), DType::i64);
      Var* y = rotate_pairs(
          g, x, rotation_by(g, cosines, n.input(3), rotated, n.integer("interleaved", 0) != 0, positions, position));
      n.set_output(0, three_axes ? merge_heads(g, y) : y);
    });

// A past that the context keeps: all sequences of a batch end where the state and the new keys do, and shorter ones begin
// later. How many keys the longest has.
Dim require_kept_past(Graph& g, Var* lengths, Dim total, Dim keys, Dim queries) {
  g.require(equal(total, keys),
            concat("total_sequence_length is ", to_string(total), ", the state and the new keys have ", to_string(keys)));
  Var* wide = cast(g, lengths, DType::i64);
  const auto length = [&](Reduce which) { return g.element(reduce(g, wide, {0}, which, false), 0, "seqlens_k") + Expr(1); };
  const Dim longest = length(Reduce::max);
  g.require(longest <= keys,
            "seqlens_k: with its past as a state, a sequence has no more keys than the state and the new ones");
  g.require(queries <= length(Reduce::min), "seqlens_k: with its past as a state, a sequence has all the new keys");
  return longest;
}

void lower_group_query_attention(Lowering& n) {
  Graph& g = n.graph();
  Var *q = n.input(0), *k = n.optional_input(1), *v = n.optional_input(2), *past_k = n.optional_input(3),
      *past_v = n.optional_input(4);
  DType dtype = q->dtype();
  require_float(q, "query");
  require_rank(q, 3, "query");
  require_same_dtypes(q, {k, v, past_k, past_v, n.optional_input(7), n.optional_input(8), n.optional_input(10)},
                      "query, key, value, the past, tables and biases");
  if ((past_k == nullptr) != (past_v == nullptr)) fail("past_key and past_value must be given together");
  if (past_k) require_rank(past_k, 4, "past_key"), require_rank(past_v, 4, "past_value");
  if (n.optional_input(10)) require_rank(n.input(10), 4, "attention_bias");
  if (n.optional_input(9)) require_integer(n.input(9), "position_ids");
  Var* sink = n.optional_input(11);
  if (sink) require_rank(sink, 1, "head_sink"), require_float(sink, "head_sink");
  for (size_t unsupported = 12; unsupported < n.input_count(); ++unsupported)
    if (n.optional_input(unsupported)) fail("input ", unsupported, " is not supported");
  int64_t heads = n.integer("num_heads", 0), kv_heads = n.integer("kv_num_heads", 0);
  if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0)
    fail("num_heads ", heads, " must be a positive multiple of kv_num_heads ", kv_heads);
  if (!k) {  // all in one
    Expr size = floor_div(q->shape()[2], heads + 2 * kv_heads), from = size * Expr(heads), width = size * Expr(kv_heads);
    k = slice(g, q, {2}, {from}, {width}, {1});
    v = slice(g, q, {2}, {from + width}, {width}, {1});
    q = slice(g, q, {2}, {Expr(0)}, {from}, {1});
  }
  if (!v) fail("value is missing");
  q = split_heads(g, widen(g, q), heads, "query");
  k = split_heads(g, widen(g, k), kv_heads, "key");
  v = split_heads(g, widen(g, v), kv_heads, "value");
  Dim batch = q->shape()[0], queries = q->shape()[2];

  for (Var* part : {k, v}) {
    require_equal(g, part->shape()[0], batch, "the batch of key and value");
    require_equal(g, part->shape()[2], queries, "the steps of key and value");
  }
  for (auto [past, part] : {std::pair{past_k, k}, std::pair{past_v, v}})
    for (int i : {0, 1, 3})
      if (past) require_equal(g, past->shape()[i], part->shape()[i], concat("axis ", i, " of the past"));

  // Before the queries, each batch element has its own number of keys: lengths - queries; none in the first call.
  Var* lengths = n.input(5);
  require_integer(lengths, "seqlens_k");
  lengths = reshape(g, lengths, {batch});
  Dim total = index_scalar(g, n.input(6), "total_sequence_length", 0, int64_t{1} << 40);
  Expr before = cast(load(0, lengths->dtype(), {axis(0)}), DType::i64) + Expr(1) - queries;
  Var* begins = g.elementwise({lengths}, {batch}, select(equal(total, queries), Expr(0), max(before, 0)));
  begins->stop_fuse = true;
  // Where the past is a state, what is new is put behind it, and `begin` of the keys before that are the sequence's own.
  const bool kept = past_k && past_k->is_state && past_v->is_state;
  const Dim longest = kept ? require_kept_past(g, lengths, total, past_k->shape()[2] + queries, queries) : total;
  auto begin = [&](int operand) { return load(operand, DType::i64, {axis(0)}); };

  if (n.integer("do_rotary", 0) != 0) {
    if (!n.optional_input(7) || !n.optional_input(8)) fail("do_rotary needs cos_cache and sin_cache");
    require_rank(n.input(7), 2, "cos_cache");
    g.require(longest <= n.input(7)->shape()[0],
              concat("cos_cache has ", to_string(n.input(7)->shape()[0]), " rows, ",
                     kept ? "a sequence" : "total_sequence_length", " has ", to_string(longest)));
    Var* positions = n.optional_input(9);
    if (positions) require_positions(g, positions, batch, queries);
    Expr position = positions ? cast(load(1, positions->dtype(), {axis(0), axis(2)}), DType::i64) : begin(1) + axis(2);
    Rotation rotation = rotation_by(g, n.input(7), n.input(8), n.input(7)->shape().back() * Expr(2),
                                    n.integer("rotary_interleaved", 0) != 0, positions ? positions : begins, position);
    q = rotate_pairs(g, q, rotation);
    k = rotate_pairs(g, k, rotation);
  }

  // The cache with the new keys behind each element's old ones.
  Dim keys = past_k ? max(past_k->shape()[2], total) : total;
  auto grown = [&](Var* past, Var* fresh) {
    Shape shape{batch, kv_heads, keys, fresh->shape()[3]};
    Expr at = axis(2) - begin(1);
    Var* added = g.reindex({fresh, begins}, shape, {axis(0), axis(1), max(min(at, queries - Expr(1)), 0), axis(3)},
                           {Expr(0) <= at, at < queries});
    if (!past) return added;
    note_extended(g, past, 2);
    Expr own = min(axis(2), past->shape()[2] - Expr(1));
    Var* kept = g.reindex({widen(g, past), begins}, shape, {axis(0), axis(1), max(own, 0), axis(3)},
                          {axis(2) < begin(1), axis(2) < past->shape()[2]});
    return map(g, Fn::add, kept, added);
  };
  if (kept) {
    k = concat(g, {past_k, cast(g, k, dtype)}, 2);
    v = concat(g, {past_v, cast(g, v, dtype)}, 2);
    if (n.wants_output(1)) n.set_output(1, k);
    if (n.wants_output(2)) n.set_output(2, v);
    k = widen(g, k);
    v = widen(g, v);
  } else {
    k = grown(past_k, k);
    v = grown(past_v, v);
    if (n.wants_output(1)) n.set_output(1, cast(g, k, dtype));
    if (n.wants_output(2)) n.set_output(2, cast(g, v, dtype));
  }

  std::optional<double> scale;
  if (double stated = n.real("scale", 0); stated != 0) scale = stated;
  Var* scores = attention_scores(g, q, repeat_heads(g, k, heads), scale);
  double softcap = n.real("softcap", 0);
  int64_t window = n.integer("local_window_size", -1);
  std::vector<Var*> operands{scores, begins};
  if (Var* bias = n.optional_input(10)) {
    // It reaches as far as the keys that are in use.
    std::vector<Expr> indices;
    for (int i = 0; i < 4; ++i) {
      Expr one = equal(bias->shape()[i], Expr(1));
      if (i < 3)
        g.require(
            logical_or(one, equal(bias->shape()[i], scores->shape()[i])),
            concat("attention_bias of shape ", to_string(bias->shape()), " against scores ", to_string(scores->shape())));
      indices.push_back(i < 3 ? select(one, Expr(0), axis(i)) : axis(i));
    }
    operands.push_back(g.reindex({widen(g, bias)}, scores->shape(), indices, {axis(3) < bias->shape()[3]}));
  }
  bool causal = n.integer("causal", 1) != 0;
  DType wide = scores->dtype();
  const Expr place = kept ? past_k->shape()[2] : begin(1);  // of the first new key
  Expr score = load(0, wide, identity_indices(4)), now = place + axis(2), seen = axis(3) < place + queries;
  if (kept) seen = logical_and(seen, place - begin(1) <= axis(3));
  if (softcap > 0) score = call(Fn::tanh, {score / constant_of(wide, softcap)}) * constant_of(wide, softcap);
  if (operands.size() > 2) score = score + load(2, wide, identity_indices(4));
  if (causal) seen = logical_and(seen, axis(3) <= now);
  if (window >= 0) seen = logical_and(seen, now - Expr(window) < axis(3));
  scores = g.elementwise(operands, scores->shape(), select(seen, score, constant_of(wide, -INFINITY)));
  const bool has_sink = sink || n.integer("smooth_softmax", 0) > 0;
  Var* weights = has_sink ? softmax_with_sink(g, scores, sink) : masked_softmax(g, scores);
  n.set_output(0, cast(g, merge_heads(g, matmul(g, weights, repeat_heads(g, v, heads))), dtype));
}
METAC_OPERATOR("GroupQueryAttention", microsoft_domain)
    .since({1})
    .inputs(7, 16)
    .outputs(1, 3)
    .required("num_heads", Kind::integer)
    .required("kv_num_heads", Kind::integer)
    .attribute("scale", Kind::real)
    .attribute("softcap", Kind::real)
    .attribute("local_window_size", Kind::integer)
    .attribute("do_rotary", Kind::integer)
    .attribute("rotary_interleaved", Kind::integer)
    .attribute("smooth_softmax", Kind::integer)
    .attribute("causal", Kind::integer)
    .lower(lower_group_query_attention);

}  // namespace
}  // namespace metac
