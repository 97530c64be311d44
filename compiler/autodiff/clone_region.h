// Copies of ops with other operands: how the gradient of a region computes its forward values again.
#pragma once
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "compiler/ir/graph.h"

namespace metac {

class Cloner {
 public:
  explicit Cloner(Graph& graph) : graph_(graph) {}
  // The copies go to the open region (or the top level). Symbols that the ops bind become fresh ones.
  void clone(const std::vector<Op*>& ops);
  void map_var(const Var* from, Var* to) { vars_[from] = to; }
  void map_symbol(int from, Expr to) { symbols_[from] = to; }
  // The copy of a Var, or the Var itself if it was not copied. Null stays null.
  Var* operator()(Var* var) const;
  Expr operator()(Expr e) const;

 private:
  std::vector<Expr> all(const std::vector<Expr>& es) const;
  int fresh_symbol(int id);
  Graph& graph_;
  std::unordered_map<const Var*, Var*> vars_;
  std::map<int, Expr> symbols_;
};

}  // namespace metac
