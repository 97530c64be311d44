// Walks over expressions: each node once, operands first, also where there are more nodes than a table on the stack holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "compiler/ir/expr.h"
#include "compiler/ir/walks.h"
#include "compiler/printing/cpp_branches.h"
#include "compiler/program/emit_extent.h"
#include "compiler/support/checked.h"

namespace metac::expr_walks_test {
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
    EXPECT_EQ(rewrite(e,
                      [&](Expr n) -> Expr {
                        EXPECT_TRUE(asked.insert(n.node()).second);
                        return {};
                      }),
              e);
    Expr moved = rewrite(e, [](Expr n) -> Expr { return n->kind == ExprKind::axis ? axis(n->id + 1000) : Expr(); });
    EXPECT_FALSE(any_of(moved, [](Expr n) { return n->kind == ExprKind::axis && n->id < 1000; }));
    EXPECT_EQ(rewrite(moved, [](Expr n) -> Expr { return n->kind == ExprKind::axis ? axis(n->id - 1000) : Expr(); }), e);
  }
}

TEST(ExprWalks, RewriteUpAsksEveryNodeOnceWithItsNewArguments) {
  for (int rungs : {1, 10, 40, 500}) {
    const Expr e = ladder(rungs);
    size_t asked = 0;
    EXPECT_EQ(rewrite_up(e, [&](Expr, const std::vector<Expr>&) -> Expr { return ++asked, Expr(); }), e);
    EXPECT_EQ(asked, static_cast<size_t>(3 * rungs + 1));
    const Expr moved = rewrite_up(
        e, [](Expr n, const std::vector<Expr>&) -> Expr { return n->kind == ExprKind::axis ? axis(n->id + 1000) : Expr(); });
    EXPECT_EQ(moved, rewrite(e, [](Expr n) -> Expr { return n->kind == ExprKind::axis ? axis(n->id + 1000) : Expr(); }));
  }
}

// Loads in the indices of loads are renamed too, each once: a walk that begins anew for every load's indices takes all
// paths.
TEST(ExprWalks, RewriteLoadsRenamesLoadsInIndicesOfLoads) {
  for (int rungs : {1, 10, 40, 500}) {
    const Expr e = ladder(rungs);
    size_t asked = 0;
    const auto renamed = [&](Expr n, const std::vector<Expr>& indices) {
      return ++asked, load(n->id + 10, n->dtype, indices);
    };
    const Expr other = rewrite_loads(e, renamed);
    EXPECT_EQ(asked, static_cast<size_t>(2 * rungs));
    EXPECT_FALSE(any_of(other, [](Expr n) { return n->kind == ExprKind::load && n->id < 10; }));
    EXPECT_EQ(
        rewrite_loads(other, [](Expr n, const std::vector<Expr>& indices) { return load(n->id - 10, n->dtype, indices); }),
        e);
  }
}

TEST(ExprWalks, AQuestionIsAnsweredOnceByEveryNode) {
  for (int rungs : {1, 10, 40, 500}) {
    size_t asked = 0;
    const int deep = answer_once<int>(ladder(rungs), [&](Expr n, const auto& of) {
      ++asked;
      int most = 0;
      for (Expr a : n->args) most = std::max(most, of(a));
      return most + 1;
    });
    EXPECT_EQ(deep, 2 * rungs + 1);
    EXPECT_EQ(asked, static_cast<size_t>(3 * rungs + 1));
  }
  EXPECT_EQ(written_nodes(ladder(1)), 5);
  EXPECT_EQ(written_nodes(ladder(2)), 2 * 5 + 3);
  EXPECT_EQ(written_nodes(ladder(500)), INT64_MAX);
}

TEST(ExprWalks, TextNamesWhatIsLargeAndShared) {
  EXPECT_EQ(to_string(ladder(1)), "@1(@0(i0, i1), i0)");
  const std::string text = to_string(ladder(100));
  EXPECT_LT(text.size(), 100u * 60);
  EXPECT_NE(text.find(" where $0 = "), std::string::npos);
}

// Dims that are shared: code as long as the nodes, and the same values.
TEST(ExprWalks, CodeOfDimsKeepsWhatIsShared) {
  Expr e = symbol(0);
  int64_t expected = 5;
  for (int k = 0; k < 60; ++k) {
    e = max(min(e * Expr(3), 1000 - e), floor_mod(e, k + 2));
    expected = std::max(std::min(expected * 3, 1000 - expected), floor_mod(expected, int64_t{k + 2}));
  }
  std::vector<rt::Instruction> code;
  EXPECT_LE(emit_extent(e, code), rt::deepest_extent);
  EXPECT_LT(code.size(), 60u * 20);
  rt::Program program{};
  program.code = code.data();
  program.code_count = static_cast<int32_t>(code.size());
  const int64_t symbols[] = {5};
  int64_t found = 0;
  ASSERT_TRUE(rt::evaluate(program, {0, static_cast<int32_t>(code.size())}, symbols, &found));
  EXPECT_EQ(found, expected);
}

TEST(ExprWalks, BranchesThatBranchesShareAreWrittenOnce) {
  Expr e = load(0, DType::f32, {axis(0)});
  for (int k = 0; k < 60; ++k)
    e = select(e < float_constant(k, DType::f32), e + load(1, DType::f32, {axis(0)}), e * load(2, DType::f32, {axis(0)}));
  EXPECT_EQ(written_branches(e), INT64_MAX);
  EXPECT_EQ(shared_branches(e).size(), 59u);  // all but the last, which nothing reads
  EXPECT_EQ(written_branches(load(0, DType::f32, {axis(0)})), 0);
}

}  // namespace
}  // namespace metac::expr_walks_test
