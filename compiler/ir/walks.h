// More walks over expressions than visit, any_of and rewrite of expr.h. All of them meet every distinct node once: sixty
// squares of squares have sixty nodes and 2^60 paths, so that nothing may call itself for the arguments of a node without
// remembering what it has seen (tests/tools/check_walks.py).
#pragma once
#include "compiler/ir/expr.h"
#include "compiler/ir/node_table.h"

namespace metac {

// Rebuilds with the arguments first: `f` gets a node and its rebuilt arguments, and returns what stands for it, or an empty
// Expr to rebuild it.
using RewriteUp = std::function<Expr(Expr node, const std::vector<Expr>& args)>;
Expr rewrite_up(Expr e, const RewriteUp& f);
// The same where only loads change; what loads nothing is not looked into. The indices of a load may load: they are rebuilt
// once, with the rest.
Expr rewrite_loads(Expr e, const RewriteUp& f);
std::vector<Expr> rewrite_loads(const std::vector<Expr>& es, const RewriteUp& f);

// Appends the conditions that all must hold for `e` to.
void conjuncts(Expr e, std::vector<Expr>& out);

// How many nodes its text has when what is shared is written each time; at most INT64_MAX.
int64_t written_nodes(Expr e);

// Asks a question whose answer follows from those for the arguments; `answer(node, of)` asks `of(argument)` where it wants
// to know.
//   const int depth = answer_once<int>(e, [](Expr n, const auto& of) {
//     int most = 0;
//     for (Expr a : n->args) most = std::max(most, of(a));
//     return most + 1;
//   });
template <class T, class Answer>
class Answers {
 public:
  explicit Answers(const Answer& answer) : answer_(answer) {}
  T operator()(Expr e) const {
    if (const T* known = known_.find(e.node())) return *known;
    T found = answer_(e, *this);
    known_.insert(e.node(), found);
    return found;
  }

 private:
  const Answer& answer_;
  mutable NodeTable<T> known_;
};

template <class T, class Answer>
T answer_once(Expr e, const Answer& answer) {
  return Answers<T, Answer>(answer)(e);
}

}  // namespace metac
