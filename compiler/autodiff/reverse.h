// The reverse walk over a list of ops. Internal to compiler/autodiff.
#pragma once
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compiler/autodiff/checkpoint.h"
#include "compiler/ir/graph.h"

namespace metac {

class Reverse {
 public:
  // `ops` is the list that the graph appends to while this object is in use; only what it holds now is walked.
  Reverse(Graph& graph, std::vector<Op*>& ops, const std::vector<Var*>& wrt);

  // Of Vars that were computed again, those that they stand for are meant.
  bool is_active(const Var* var) const { return active_.contains(again_.original(var)); }  // depends on wrt, floating point
  void add_adjoint(Var* var, Var* adjoint);  // sums; ignored where var is not active
  Var* adjoint(Var* var);                    // null: zero
  void walk();

  Graph& graph() { return graph_; }

 private:
  void find_what_may_be_nan();
  void visit(Op& op);
  void elementwise(Op& op);
  void reindex(Op& op);
  void reindex_reduce(Op& op);
  void extremum(Op& op, Var* adjoint);
  void product(Op& op, Var* adjoint);
  void if_(Op& op);
  void loop(Op& op);
  // The stacked output of a Loop that holds `value` of its body for every iteration; made if there is none.
  Var* saved(Op& op, Var* value, Expr trips);
  Expr trip_dim(Op& op);  // the number of iterations done, as the leading dim of stacked outputs

  Graph& graph_;
  std::vector<Op*>& ops_;
  size_t count_;
  Recomputation again_;
  std::unordered_set<const Var*> active_;
  std::unordered_set<const Var*> may_be_nan_;  // values of which a select takes some elements only
  std::unordered_map<const Var*, std::vector<Var*>> adjoints_;
};

// Op-making shorthands of the rules.
Var* zeros_like(Graph& graph, const Var* var);
// The sum, as one op; null for none.
Var* sum_of(Graph& graph, const std::vector<Var*>& terms);
// Elementwise over `shape` with the operands that `body` does not load left out.
Var* trimmed_elementwise(Graph& graph, const std::vector<Var*>& operands, const Shape& shape, Expr body);
// The same for the further operands (index Vars) of a Reindex or ReindexReduce whose first operand is `first`.
Var* trimmed_reindex(Graph& graph, Var* first, const Op& op, const Shape& shape, const std::vector<Expr>& indices);
Var* trimmed_reduce(Graph& graph, Var* first, const Op& op, const Shape& shape, const std::vector<Expr>& indices);
// What the closure of max and min needs: 1 where an element attains the result, and how many do.
struct Attained {
  Var *mask, *count;
};
Attained attained(Graph& graph, const Op& op);
// For a product: d result / d element for every element.
Var* product_of_others(Graph& graph, const Op& op);

}  // namespace metac
