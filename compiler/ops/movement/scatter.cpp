// Writing at positions that data gives: ScatterElements, Scatter, ScatterND, TensorScatter.
//
// With a reduction, a scatter is a ReindexReduce of the updates, combined with the data. Plain overwriting is none, since it
// depends on an order: here the update that stands last wins, always. A first ReindexReduce(max) of the updates' positions
// finds for every element the winner (-1: none), a gather fetches it. Both steps are meta-operators, so gradients follow.
#include "compiler/ops/shape_operands.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

// Where an update goes: over the axes of the updates, one index an axis of the target, with a condition that it is inside.
struct Target {
  std::vector<Expr> indices, conditions;
};

Expr index_in(Expr raw, Dim extent, std::vector<Expr>& conditions) {
  Expr index = select(raw < Expr(0), raw + extent, raw);
  conditions.push_back(Expr(0) <= index);
  conditions.push_back(index < extent);
  return index;
}

std::optional<Reduce> reduction_of(const Lowering& n, DType dtype) {
  std::string name = n.string("reduction", "none");
  if (name == "none") return std::nullopt;
  bool logical = is_bool(dtype);
  if (name == "add") return logical ? Reduce::logical_or : Reduce::add;
  if (name == "mul") return logical ? Reduce::logical_and : Reduce::mul;
  if (n.opset() >= 18 && name == "max") return logical ? Reduce::logical_or : Reduce::max;
  if (n.opset() >= 18 && name == "min") return logical ? Reduce::logical_and : Reduce::min;
  fail("reduction ", quoted(name), " is not known at opset ", n.opset());
}

void check_operands(const Var* data, const Var* indices, const Var* updates) {
  require_index_dtype(indices);
  if (updates->dtype() != data->dtype())
    fail("updates are ", name_of(updates->dtype()), ", the data is ", name_of(data->dtype()));
  if (data->rank() == 0 || indices->rank() == 0)
    fail("data of shape ", to_string(data->shape()), " and indices of shape ", to_string(indices->shape()),
         " must have rank 1 or more");
}

Var* reduce_into(Graph& g, Var* data, Var* indices, Var* updates, const Target& target, Reduce reduction) {
  Var* sum = g.reindex_reduce({updates, indices}, data->shape(), target.indices, reduction, target.conditions);
  return elementwise(g, {data, sum}, [&](const std::vector<Expr>& v) { return combine(reduction, v[0], v[1]); });
}

// The linear position, in `domain`, of the last of its points that falls on each element of `shape`; -1 where none does.
Var* last_writer(Graph& g, const Shape& domain, const Shape& shape, Var* indices, const Target& target) {
  Var* positions = fill(g, domain, linear_index(domain, identity_indices(static_cast<int>(domain.size()))));
  Var* last = g.reindex_reduce({positions, indices}, shape, target.indices, Reduce::max, target.conditions);
  return elementwise(g, {last}, [](const std::vector<Expr>& v) { return max(v[0], -1); });
}

void lower_scatter_elements(Lowering& n) {
  Graph& g = n.graph();
  Var *data = n.input(0), *indices = n.input(1), *updates = n.input(2);
  check_operands(data, indices, updates);
  int rank = data->rank();
  if (indices->rank() != rank || updates->rank() != rank)
    fail("data, indices and updates have shapes ", to_string(data->shape()), ", ", to_string(indices->shape()), " and ",
         to_string(updates->shape()), "; the ranks must agree");
  int along = check_axis(n.integer("axis", 0), rank);
  for (int k = 0; k < rank; ++k) {
    g.require(equal(indices->shape()[k], updates->shape()[k]),
              concat("indices of shape ", to_string(indices->shape()), " and updates of shape ", to_string(updates->shape()),
                     " differ"));
    if (k != along)
      g.require(indices->shape()[k] <= data->shape()[k],
                concat("indices of shape ", to_string(indices->shape()), " are larger than data of shape ",
                       to_string(data->shape()), " along axis ", k));
  }
  check_index_range(g, indices, data->shape()[along], "indices");
  Target target;
  target.indices = identity_indices(rank);
  target.indices[along] =
      index_in(cast(load(1, indices->dtype(), identity_indices(rank)), DType::i64), data->shape()[along], target.conditions);
  if (auto reduction = reduction_of(n, data->dtype()))
    return n.set_output(0, reduce_into(g, data, indices, updates, target, *reduction));
  Var* winner = last_writer(g, updates->shape(), data->shape(), indices, target);
  Expr w = load(1, DType::i64, identity_indices(rank));
  Var* chosen = g.reindex({updates, winner}, data->shape(), unravel_index(updates->shape(), max(w, 0)), {Expr(0) <= w});
  n.set_output(0, elementwise(g, {winner, chosen, data},
                              [](const std::vector<Expr>& v) { return select(Expr(0) <= v[0], v[1], v[2]); }));
}
METAC_OPERATOR("ScatterElements")
    .since({11, 13, 16, 18})
    .inputs(3)
    .outputs(1)
    .attribute("axis", Kind::integer)
    .attribute("reduction", Kind::string, 16)
    .lower(lower_scatter_elements);
METAC_OPERATOR("Scatter").since({9, 11}).inputs(3).outputs(1).attribute("axis", Kind::integer).lower(lower_scatter_elements);

// data[indices[i..., :]..., s...] = updates[i..., s...]
void lower_scatter_nd(Lowering& n) {
  Graph& g = n.graph();
  Var *data = n.input(0), *indices = n.input(1), *updates = n.input(2);
  check_operands(data, indices, updates);
  // How many axes a tuple of indices addresses: its length, or what the ranks say.
  const int64_t* known = indices->shape().back().if_int();
  const int64_t depth = known ? *known : indices->rank() - 1 + data->rank() - updates->rank();
  if (depth < 0 || depth > data->rank())
    fail("indices of shape ", to_string(indices->shape()), " address ", depth, " axes, data has shape ",
         to_string(data->shape()));
  g.require(equal(indices->shape().back(), Expr(depth)),
            concat("indices of shape ", to_string(indices->shape()), " must address ", depth, " axes"));
  int tuples = indices->rank() - 1, addressed = static_cast<int>(depth);
  Shape expected(indices->shape().begin(), indices->shape().end() - 1);
  expected.insert(expected.end(), data->shape().begin() + addressed, data->shape().end());
  if (updates->rank() != static_cast<int>(expected.size()))
    fail("updates have shape ", to_string(updates->shape()), ", expected ", to_string(expected));
  for (int k = 0; k < updates->rank(); ++k)
    g.require(equal(updates->shape()[k], expected[k]),
              concat("updates have shape ", to_string(updates->shape()), ", expected ", to_string(expected)));
  Target target;
  for (int k = 0; k < addressed; ++k) {
    std::vector<Expr> where = identity_indices(tuples);
    where.push_back(k);
    check_index_range(g, indices, data->shape()[k], "indices", k, addressed);
    target.indices.push_back(
        index_in(cast(load(1, indices->dtype(), where), DType::i64), data->shape()[k], target.conditions));
  }
  if (auto reduction = reduction_of(n, data->dtype())) {
    for (int k = addressed; k < data->rank(); ++k) target.indices.push_back(axis(tuples + k - addressed));
    return n.set_output(0, reduce_into(g, data, indices, updates, target, *reduction));
  }
  // One winner for a whole slice: positions run over the index tuples alone.
  Shape tuple_shape(expected.begin(), expected.begin() + tuples),
      addressed_shape(data->shape().begin(), data->shape().begin() + addressed);
  Var* winner = last_writer(g, tuple_shape, addressed_shape, indices, target);
  Expr w = load(1, DType::i64, identity_indices(addressed));
  std::vector<Expr> from = unravel_index(tuple_shape, max(w, 0));
  for (int k = addressed; k < data->rank(); ++k) from.push_back(axis(k));
  Var* chosen = g.reindex({updates, winner}, data->shape(), from, {Expr(0) <= w});
  Expr body =
      select(Expr(0) <= load(0, DType::i64, identity_indices(addressed)),
             load(1, data->dtype(), identity_indices(data->rank())), load(2, data->dtype(), identity_indices(data->rank())));
  n.set_output(0, g.elementwise({winner, chosen, data}, data->shape(), body));
}
METAC_OPERATOR("ScatterND")
    .since({11, 13, 16, 18})
    .inputs(3)
    .outputs(1)
    .attribute("reduction", Kind::string, 16)
    .lower(lower_scatter_nd);

// A cache [batch, ..., max_length, ...] gets `update` from write_indices[batch] on along `axis`; circular: past its end it
// goes on at the start.
METAC_OPERATOR("TensorScatter")
    .since({24})
    .inputs(2, 3)
    .outputs(1)
    .attribute("axis", Kind::integer)
    .attribute("mode", Kind::string)
    .lower([](Lowering& n) {
      Graph& g = n.graph();
      Var *cache = n.input(0), *update = n.input(1), *starts = n.optional_input(2);
      if (cache->dtype() != update->dtype())
        fail("update is ", name_of(update->dtype()), ", past_cache is ", name_of(cache->dtype()));
      if (cache->rank() != update->rank() || cache->rank() < 2)
        fail("past_cache has shape ", to_string(cache->shape()), ", update ", to_string(update->shape()));
      int along = check_axis(n.integer("axis", -2), cache->rank());
      if (along == 0) fail("axis 0 is the batch");
      std::string mode = n.string("mode", "linear");
      if (mode != "linear" && mode != "circular") fail("mode ", quoted(mode), " is not linear or circular");
      for (int k = 0; k < cache->rank(); ++k)
        if (k != along)
          g.require(equal(cache->shape()[k], update->shape()[k]),
                    concat("past_cache of shape ", to_string(cache->shape()), " and update of shape ",
                           to_string(update->shape()), " differ along axis ", k));
      Expr length = update->shape()[along], room = cache->shape()[along];
      g.require(length <= room, concat("update of shape ", to_string(update->shape()),
                                       " is longer than past_cache of shape ", to_string(cache->shape())));
      std::vector<Var*> from = {update}, both = {cache};
      auto offset_from = [&](Expr start) {
        return mode == "circular" ? floor_mod(axis(along) - start, room) : axis(along) - start;
      };
      Expr start = 0;
      if (starts) {
        if (starts->rank() != 1 || !is_integer(starts->dtype()))
          fail("write_indices must be an integer vector, found ", name_of(starts->dtype()), " ", to_string(starts->shape()));
        from.push_back(starts);
        start = cast(load(1, starts->dtype(), {axis(0)}), DType::i64);
      }
      Expr offset = offset_from(start);
      Expr inside = logical_and(Expr(0) <= offset, offset < length);
      std::vector<Expr> indices = identity_indices(cache->rank());
      indices[along] = offset;
      Var* spread = g.reindex(from, cache->shape(), indices, {Expr(0) <= offset, offset < length});
      std::vector<Expr> here = identity_indices(cache->rank());
      std::vector<Var*> operands = {spread};
      if (starts) operands.push_back(starts);
      operands.push_back(cache);
      int last = static_cast<int>(operands.size()) - 1;
      n.set_output(0, g.elementwise(operands, cache->shape(),
                                    select(inside, load(0, cache->dtype(), here), load(last, cache->dtype(), here))));
    });

}  // namespace
}  // namespace metac
