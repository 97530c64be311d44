// RotaryEmbedding: pairs of elements of each head are rotated by an angle that depends on the position. Pairs are
// (d, d + half), or neighbours when interleaved; elements from rotary_embedding_dim on stay as they are.
#include "compiler/ops/layers/rotary_embedding.h"

#include "compiler/ops/pointwise/arithmetic.h"
#include "compiler/ops/shape_operands.h"

namespace metac {

Var* rotate_pairs(Graph& g, Var* x, const Rotation& rotation) {
  Dim size = x->shape()[3], rotated = rotation.rotated;
  Expr half = floor_div(rotated, 2);
  g.require(rotated <= size, concat(to_string(rotated), " rotated elements exceed the head size ", to_string(size)));
  Shape shape = x->shape();
  shape[3] = rotated;
  bool interleaved = rotation.interleaved;
  Expr d = axis(3), second = interleaved ? floor_mod(d, 2) : floor_div(d, half);  // 0 or 1: which of the pair
  Expr pair = interleaved ? floor_div(d, 2) : floor_mod(d, half);
  Expr partner = interleaved ? d + Expr(1) - Expr(2) * second : floor_mod(d + half, rotated);
  auto spread = [&](const Rotation::Angle& angle) { return g.reindex(angle.operands, shape, angle.indices); };
  Var* own = g.reindex({x}, shape, identity_indices(4));
  Var* other = g.reindex({x}, shape, {axis(0), axis(1), axis(2), partner});
  Var* y =
      compute(g, {own, other, spread(rotation.cosine(pair)), spread(rotation.sine(pair))}, [&](const std::vector<Expr>& v) {
        Expr turned = v[1] * v[3];
        return v[0] * v[2] + select(equal(second, 0), -turned, turned);
      });
  return rotated == size ? y : concat(g, {y, slice(g, x, {3}, {rotated}, {size - rotated}, {1})}, 3);
}

namespace {

using Kind = Attribute::Kind;

void lower_rotary_embedding(Lowering& n) {
  Graph& g = n.graph();
  Var *x = n.input(0), *cosines = n.input(1), *sines = n.input(2), *positions = n.optional_input(3);
  require_float(x, "X");
  require_same_dtype(x, cosines, "X", "cos_cache");
  require_same_dtype(x, sines, "X", "sin_cache");
  Shape original = x->shape();
  bool three_axes = x->rank() == 3;
  if (three_axes) {
    int64_t heads = n.integer("num_heads", 0);
    if (heads < 1) fail("X of shape ", to_string(original), " needs num_heads of at least 1, found ", heads);
    g.require(equal(floor_mod(original[2], heads), 0),
              concat("num_heads ", heads, " must divide the last axis of X ", to_string(original)));
    x = transpose(g, reshape(g, x, {original[0], original[1], heads, floor_div(original[2], heads)}), {0, 2, 1, 3});
  }
  require_rank(x, 4, "X");  // [B, heads, S, D]
  Dim size = x->shape()[3], rotated = size;
  if (int64_t stated = n.integer("rotary_embedding_dim", 0)) {
    if (stated < 0 || stated % 2 != 0) fail("rotary_embedding_dim must be even and not negative, found ", stated);
    rotated = stated;
    g.require(rotated <= size, concat("rotary_embedding_dim ", stated, " exceeds the head size ", to_string(size)));
  }
  Expr half = floor_div(rotated, 2);
  int cache_rank = positions ? 2 : 3;
  auto angle = [&](Var* cache, std::string_view what) {
    require_equal(g, cache->shape()[cache_rank - 1], half,
                  concat("last axis of ", what, " ", to_string(cache->shape()), " against half of the rotated elements"));
    return [cache, positions](Expr pair) -> Rotation::Angle {
      if (!positions) return {{cache}, {axis(0), axis(2), pair}};
      return {{cache, positions},
              {safe_index(cast(load(1, positions->dtype(), {axis(0), axis(2)}), DType::i64), cache->shape()[0]), pair}};
    };
  };
  for (Var* cache : {cosines, sines}) require_rank(cache, cache_rank, cache == cosines ? "cos_cache" : "sin_cache");
  // Where there are no positions, the caches have an entry for each of the batch and of the sequence.
  auto require_places = [&](Var* v, std::string_view what) {
    for (int k : {0, 1})
      require_equal(
          g, v->shape()[k], x->shape()[k ? 2 : 0],
          concat("axis ", k, " of ", what, " ", to_string(v->shape()), " against the ", k ? "sequence" : "batch", " of X"));
  };
  if (positions) {
    require_integer(positions, "position_ids");
    require_rank(positions, 2, "position_ids");
    require_places(positions, "position_ids");
    for (Var* cache : {cosines, sines}) g.require(Expr(1) <= cache->shape()[0], "cos_cache and sin_cache must have rows");
  } else {
    require_places(cosines, "cos_cache");
    require_places(sines, "sin_cache");
  }
  Var* y = rotate_pairs(g, x,
                        {rotated, n.integer("interleaved", 0) != 0, angle(cosines, "cos_cache"), angle(sines, "sin_cache")});
  if (three_axes) y = reshape(g, transpose(g, y, {0, 2, 1, 3}), original);
  n.set_output(0, y);
}

METAC_OPERATOR("RotaryEmbedding")
    .since({23})
    .inputs(3, 4)
    .outputs(1)
    .attribute("num_heads", Kind::integer)
    .attribute("rotary_embedding_dim", Kind::integer)
    .attribute("interleaved", Kind::integer)
    .lower(lower_rotary_embedding);

}  // namespace
}  // namespace metac
