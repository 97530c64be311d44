// Reading at positions that data gives: Gather, GatherElements, GatherND, Compress, NonZero.
#include "compiler/ops/shape_operands.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

METAC_OPERATOR("Gather").since({1, 11, 13}).inputs(2).outputs(1).attribute("axis", Kind::integer).lower([](Lowering& n) {
  Var *x = n.input(0), *indices = n.input(1);
  require_index_dtype(indices);
  if (x->rank() == 0) fail("the data is a scalar");
  int axis = check_axis(n.integer("axis", 0), x->rank());
  check_index_range(n.graph(), indices, x->shape()[axis], "indices");
  n.set_output(0, gather(n.graph(), x, indices, axis));
});

METAC_OPERATOR("GatherElements")
    .since({11, 13})
    .inputs(2)
    .outputs(1)
    .attribute("axis", Kind::integer)
    .lower([](Lowering& n) {
      Graph& g = n.graph();
      Var *x = n.input(0), *indices = n.input(1);
      require_index_dtype(indices);
      if (x->rank() != indices->rank() || x->rank() == 0)
        fail("data of shape ", to_string(x->shape()), " and indices of shape ", to_string(indices->shape()),
             " must have one rank, at least 1");
      int axis = check_axis(n.integer("axis", 0), x->rank());
      check_index_range(g, indices, x->shape()[axis], "indices");
      std::vector<Expr> at = identity_indices(x->rank());
      for (int k = 0; k < x->rank(); ++k)
        if (k != axis)
          g.require(indices->shape()[k] <= x->shape()[k],
                    concat("indices of shape ", to_string(indices->shape()), " are larger than data of shape ",
                           to_string(x->shape()), " along axis ", k));
      at[axis] = safe_index(cast(load(1, indices->dtype(), identity_indices(x->rank())), DType::i64), x->shape()[axis]);
      n.set_output(0, g.reindex({x, indices}, indices->shape(), at));
    });

// How many axes of the data each row of indices addresses.
int64_t tuple_length(Lowering& n, int64_t batch) {
  const Var *x = n.input(0), *indices = n.input(1);
  const Dim last = indices->shape().back();
  if (last.if_int()) return last.as_int();
  const std::optional<int> rank = n.declared_rank(0);
  if (!rank)
    fail("the last dim of indices must be known, or the rank of the result declared; the shape is ",
         to_string(indices->shape()));
  const int64_t depth = indices->rank() - 1 + x->rank() - batch - *rank;
  n.graph().require(equal(last, Expr(depth)), concat("the result is declared with rank ", *rank,
                                                     ", so rows of indices must have ", depth, " entries"));
  return depth;
}

// out[b..., i..., s...] = data[b..., indices[b..., i..., :]..., s...]
METAC_OPERATOR("GatherND")
    .since({11, 12, 13})
    .inputs(2)
    .outputs(1)
    .attribute("batch_dims", Kind::integer, 12)
    .lower([](Lowering& n) {
      Graph& g = n.graph();
      Var *x = n.input(0), *indices = n.input(1);
      require_index_dtype(indices);
      int64_t batch = n.integer("batch_dims", 0);
      if (x->rank() == 0 || indices->rank() == 0) fail("data and indices must have rank 1 or more");
      if (batch < 0 || batch >= std::min(x->rank(), indices->rank()))
        fail("batch_dims is ", batch, ", data has rank ", x->rank(), " and indices rank ", indices->rank());
      // It decides the rank of the result; the rank that the model declares for that decides it as well.
      const int64_t depth = tuple_length(n, batch);
      if (depth < 0 || batch + depth > x->rank())
        fail("indices of shape ", to_string(indices->shape()), " address ", depth, " axes after ", batch,
             " batch axes; data has shape ", to_string(x->shape()));
      for (int64_t k = 0; k < batch; ++k)
        g.require(equal(x->shape()[k], indices->shape()[k]),
                  concat("batch axis ", k, " is ", to_string(x->shape()[k]), " in data and ", to_string(indices->shape()[k]),
                         " in indices"));
      int tuple_rank = indices->rank() - 1;
      Shape shape(indices->shape().begin(), indices->shape().end() - 1);
      std::vector<Expr> at;
      for (int64_t k = 0; k < batch; ++k) at.push_back(axis(static_cast<int>(k)));
      for (int64_t k = 0; k < depth; ++k) {
        std::vector<Expr> where = identity_indices(tuple_rank);
        where.push_back(k);
        Dim extent = x->shape()[batch + k];
        check_index_range(g, indices, extent, "indices", k, depth);
        at.push_back(safe_index(cast(load(1, indices->dtype(), where), DType::i64), extent));
      }
      for (int k = static_cast<int>(batch + depth); k < x->rank(); ++k) {
        at.push_back(axis(static_cast<int>(shape.size())));
        shape.push_back(x->shape()[k]);
      }
      n.set_output(0, g.reindex({x, indices}, shape, at));
    });

// int64 [rank, count]: the routine counts and binds the symbol.
Var* nonzero(Graph& g, Var* x) {
  Symbol count;
  count.name = "nonzero";
  Expr most = element_count(x->shape());
  if (most.if_int()) count.max = most.as_int();
  int id = g.add_symbol(count);
  return g.external("nonzero", {x}, {Type{TypeKind::tensor, DType::i64, {Dim(x->rank()), symbol(id)}}}, {}, {id})[0];
}

METAC_OPERATOR("NonZero").since({9, 13}).inputs(1).outputs(1).lower([](Lowering& n) {
  n.set_output(0, nonzero(n.graph(), n.input(0)));
});

METAC_OPERATOR("Compress").since({9, 11, 28}).inputs(2).outputs(1).attribute("axis", Kind::integer).lower([](Lowering& n) {
  Graph& g = n.graph();
  Var *x = n.input(0), *condition = n.input(1);
  if (condition->rank() != 1 || !is_bool(condition->dtype()))
    fail("the condition must be a bool vector, found ", name_of(condition->dtype()), " ", to_string(condition->shape()));
  int axis = 0;
  if (n.has("axis"))
    axis = check_axis(n.integer("axis", 0), x->rank());
  else
    x = reshape(g, x, {element_count(x->shape())});
  g.require(condition->shape()[0] <= x->shape()[axis], concat("the condition has ", to_string(condition->shape()[0]),
                                                              " elements, the axis ", to_string(x->shape()[axis])));
  Var* chosen = nonzero(g, condition);
  n.set_output(0, gather(g, x, reshape(g, chosen, {chosen->shape()[1]}), axis));
});

}  // namespace
}  // namespace metac
