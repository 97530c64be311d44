// Expressions live as long as the compilation that made them: what a process holds does not grow with what it compiled.
#include "compiler/ir/expr_table.h"

#include <gtest/gtest.h>

#include <thread>

#include "compiler/session/session.h"
#include "compiler/machine/cpu_target.h"
#include "frontends/json/json.h"

namespace metac::expr_table_test {
namespace {

TEST(ExprTable, AScopeHasItsOwnNodes) {
  const Expr outside = axis(0) + axis(1);
  const size_t before = ExprTable::current().size();
  {
    const ExprScope scope;
    EXPECT_EQ(ExprTable::current().size(), 0u);
    const Expr inside = axis(0) + axis(1);
    EXPECT_EQ(inside, axis(1) + axis(0));
    EXPECT_NE(inside.node(), outside.node());
    EXPECT_EQ(to_string(inside), to_string(outside));
    {
      const ExprScope nested;
      EXPECT_NE((axis(0) + axis(1)).node(), inside.node());
    }
    EXPECT_EQ(inside, axis(0) + axis(1));
  }
  EXPECT_EQ(ExprTable::current().size(), before);
  EXPECT_EQ(outside, axis(0) + axis(1));
}

TEST(ExprTable, AScopeIsOfItsThread) {
  const ExprScope scope;
  const uint32_t here = ExprTable::current().id();
  uint32_t there = here;
  std::thread([&] { there = ExprTable::current().id(); }).join();
  EXPECT_NE(here, there);
}

// Canonical sums are ordered by the numbers of their nodes: what was compiled before must not show in what comes.
TEST(ExprTable, SumsDoNotDependOnWhatWasMadeBefore) {
  auto text = [] {
    const ExprScope scope;
    return to_string(axis(1) * Expr(2) + axis(0));
  };
  const std::string first = text();
  {
    const ExprScope other;
    axis(0) + axis(5);
  }
  EXPECT_EQ(text(), first);
}

TEST(ExprTable, MemoriesGoWithTheirExpressions) {
  static int alive = 0;
  struct Memory {
    Memory() { ++alive; }
    ~Memory() { --alive; }
    int met = 0;
  };
  {
    const ExprScope scope;
    EXPECT_EQ(++ExprTable::current().memory<Memory>().met, 1);
    EXPECT_EQ(++ExprTable::current().memory<Memory>().met, 2);
    EXPECT_EQ(alive, 1);
    const ExprScope nested;
    EXPECT_EQ(++ExprTable::current().memory<Memory>().met, 1);
    EXPECT_EQ(alive, 2);
  }
  EXPECT_EQ(alive, 0);
}

TEST(ExprTable, ASessionThatMeetsNewShapesLeavesNoExpressions) {
  const Model model = read_json_model(R"({"metac_ir": 1, "inputs": [
      {"name": "x", "dtype": "float32", "shape": ["n", 3]}, {"name": "w", "dtype": "float32", "shape": [3, 4]}], "nodes": [
    {"op": "matmul", "inputs": ["x", "w"], "outputs": ["s"]},
    {"op": "elementwise", "inputs": ["s"], "outputs": ["y"], "body": "s*s"}], "outputs": ["y"]})",
                                      "shapes.json");
  SessionOptions options;
  options.compile.cpu = cpu_target("native");
  Session session(model, options);
  const size_t before = ExprTable::current().size();
  for (int64_t n = 1; n < 6; ++n) {
    const Tensor x = make_tensor<float>(DType::f32, {n, 3}, std::vector<float>(static_cast<size_t>(n) * 3, 1));
    const Tensor w = make_tensor<float>(DType::f32, {3, 4}, std::vector<float>(12, 1));
    EXPECT_EQ(session.run({{"x", x}, {"w", w}})[0].second.shape, (std::vector<int64_t>{n, 4}));
  }
  EXPECT_EQ(ExprTable::current().size(), before);
}

}  // namespace
}  // namespace metac::expr_table_test
