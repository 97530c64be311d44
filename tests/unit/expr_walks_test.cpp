// Walks over expressions: each node once, operands first, also where there are more nodes than a table on the stack holds.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "compiler/ir/expr.h"

namespace metac {
namespace {

// A ladder: every rung is read twice by the next, so that it has 2^rungs paths.
Expr ladder(int rungs) {
  Expr e = axis(0);
  for (int k = 0; k < rungs; ++k) e = load(1, DType::i64, {load(0, DType::i64, {e, axis(k + 1)}), e});
  return e;
}

TEST(ExprWalks, VisitMeetsEveryNodeOnceAndItsOperandsBefore) {
  for (int rungs : {1, 10, 40, 500}) {
    std::map<const ExprNode*, int> turn;
    visit(ladder(rungs), [&](Expr n) {
      for (Expr a : n->args) EXPECT_TRUE(turn.count(a.node()));
      EXPECT_TRUE(turn.emplace(n.node(), static_cast<int>(turn.size())).second);
    });
    EXPECT_EQ(turn.size(), static_cast<size_t>(3 * rungs + 1));  // two loads and an axis a rung, and axis 0
  }
}

TEST(ExprWalks, AnyOfStopsAtTheFirstThatFits) {
  int asked = 0;
  EXPECT_TRUE(any_of(ladder(300), [&](Expr n) { return ++asked, n->kind == ExprKind::axis; }));
  EXPECT_EQ(asked, 1);
  EXPECT_FALSE(any_of(ladder(300), [&](Expr n) { return ++asked, n->kind == ExprKind::symbol; }));
  EXPECT_EQ(asked, 1 + 3 * 300 + 1);
}

TEST(ExprWalks, RewriteReplacesEverywhereAndKeepsWhatDoesNotChange) {
  for (int rungs : {1, 10, 40, 500}) {
    Expr e = ladder(rungs);
    std::set<const ExprNode*> asked;
    EXPECT_EQ(rewrite(e, [&](Expr n) -> Expr {
      EXPECT_TRUE(asked.insert(n.node()).second);
      return {};
    }), e);
    Expr moved = rewrite(e, [](Expr n) -> Expr { return n->kind == ExprKind::axis ? axis(n->id + 1000) : Expr(); });
    EXPECT_FALSE(any_of(moved, [](Expr n) { return n->kind == ExprKind::axis && n->id < 1000; }));
    EXPECT_EQ(rewrite(moved, [](Expr n) -> Expr { return n->kind == ExprKind::axis ? axis(n->id - 1000) : Expr(); }), e);
  }
}

}  // namespace
}  // namespace metac
