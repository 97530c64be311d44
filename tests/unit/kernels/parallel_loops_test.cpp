// Every kernel with enough work can be shared among threads, whatever its loops are.
#include <gtest/gtest.h>

#include "compiler/region/fusion/fuse.h"
#include "compiler/target/cpu/strategies/lower_group.h"

namespace metac::parallel_loops_test {
namespace {

// The parallel iterations of y = x[:, 1:1 + columns], whose two loops are no single run of memory.
int64_t iterations(int64_t rows, int64_t columns) {
  Graph g;
  Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f32, {rows, columns + 2}});
  Var* y = g.reindex({x}, {rows, columns}, {axis(0), axis(1) + Expr(1)});
  Group group;
  group.stages = definitions_of(y->producer, g.symbols);
  Layouts layouts;
  LoweringContext context;
  context.symbols = &g.symbols;
  context.layouts = &layouts;
  context.var = [&](int id) { return g.vars()[static_cast<size_t>(id)].get(); };
  return parallel_extent(lower_group(group, context)).as_int();
}

TEST(ParallelLoops, EnoughWorkIsShared) {
  for (int64_t rows : {2, 3, 49, 196, 784, 3136, 4096, 4097, 100000})
    for (int64_t columns : {1, 4, 16, 32, 100, 1000, 3000}) {
      int64_t n = iterations(rows, columns);
      if (rows * columns > 5000) {
        EXPECT_GT(n, 1) << rows << "x" << columns;
      }
      EXPECT_LE(n, std::max<int64_t>(rows, rows * columns / 1024)) << rows << "x" << columns;
      if (n > 1) {
        EXPECT_GE(rows * columns / n, 1000) << rows << "x" << columns << ": too little for an iteration";
      }
    }
}

}  // namespace
}  // namespace metac::parallel_loops_test
