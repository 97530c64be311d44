// Det: Gaussian elimination with partial pivoting, one column an iteration, on all matrices at once.
#include "compiler/ops/control/carried_loop.h"
#include "compiler/ops/pointwise/arithmetic.h"

namespace metac {
namespace {

void lower_det(Lowering& n) {
  Graph& g = n.graph();
  Var* x = n.input(0);
  require_float(x, "X");
  require_rank_at_least(x, 2, "X");
  int rank = x->rank(), outer = rank - 2;
  Dim size = x->shape()[rank - 1];
  require_equal(g, x->shape()[outer], size, concat("the matrices of X ", to_string(x->shape())));
  Shape batch(x->shape().begin(), x->shape().end() - 2);
  Var* matrix = widen(g, x);
  DType dtype = matrix->dtype();
  Shape shape = matrix->shape();
  Expr row = axis(outer), column = axis(outer + 1);
  auto at = [&](Expr i, Expr j) {  // the indices of an element of the matrix of this batch element
    std::vector<Expr> indices = identity_indices(outer);
    indices.push_back(i);
    indices.push_back(j);
    return indices;
  };
  CarriedLoop loop;
  loop.trip_count = fill(g, {}, size);
  loop.trips = size;
  loop.initial = {matrix, fill(g, batch, constant_of(dtype, 1))};
  Op* op = loop.build(g, [&](Expr k, const std::vector<Var*>& carried) -> std::vector<Var*> {
    Var *m = carried[0], *determinant = carried[1];
    Shape rows = batch;
    rows.push_back(size);
    // The row at or below k that holds the largest number of column k.
    Var* candidates =
        g.elementwise({m}, rows, select(row < k, constant_of(dtype, -1), call(Fn::abs, {load(0, dtype, at(row, k))})));
    Var* largest = reduce(g, candidates, {outer}, Reduce::max, false);
    Var* places =
        g.elementwise({candidates, largest}, rows,
                      select(equal(load(0, dtype, identity_indices(outer + 1)), load(1, dtype, identity_indices(outer))),
                             row, size - Expr(1)));
    Var* pivot = reduce(g, places, {outer}, Reduce::min, false);
    Expr p = load(1, DType::i64, identity_indices(outer));
    Var* swapped = g.reindex({m, pivot}, shape, at(select(equal(row, k), p, select(equal(row, p), k, row)), column));
    Expr product = load(2, dtype, identity_indices(outer)) * load(0, dtype, at(k, k));
    Var* next_determinant = g.elementwise({swapped, pivot, determinant}, batch, select(equal(p, k), product, -product));
    Expr own = load(0, dtype, identity_indices(rank)), head = load(0, dtype, at(row, k)),
         top = load(0, dtype, at(k, column)), corner = load(0, dtype, at(k, k));
    Expr zero = constant_of(dtype, 0);
    Expr reduced = own - select(equal(corner, zero), zero, head / corner) * top;
    Var* next = g.elementwise({swapped}, shape, select(k < row, reduced, own));
    return {nullptr, next, next_determinant};
  });
  n.set_output(0, cast(g, op->outputs[1], x->dtype()));
}

METAC_OPERATOR("Det").since({11, 22}).inputs(1).outputs(1).lower(lower_det);

}  // namespace
}  // namespace metac
