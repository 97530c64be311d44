// Blocks of points: chosen to fit, whatever the number of points, and computed right where the last block is not full.
#include "compiler/target/cpu/tiles/cache_blocks.h"

#include <gtest/gtest.h>

#include "compiler/ir/builders.h"
#include "compiler/jit/jit_program.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/program/compile.h"
#include "tests/unit/ramp.h"

namespace metac::cache_blocks_test {
namespace {

TEST(CacheBlocks, FitWhateverTheNumberOfPoints) {
  constexpr int64_t cache = 1 << 20, steps = 768, panel_bytes = steps * 32 * 4;
  for (int64_t tiles : {60, 64, 97, 113, 128, 251}) {  // of 14 points; all of them are too many
    PanelSizes panel{96, panel_bytes, panel_bytes, {{1, steps}}};
    BlockOfPoints cut = choose_block_of_points({{0, 14, tiles}}, axis(0) * Expr(steps) + axis(1), panel, cache);
    int64_t bytes = cut.inner * 14 * steps * 4 + panel_bytes;
    EXPECT_LT(bytes, cache) << tiles << " tiles";
    EXPECT_GT(bytes, cache / 3) << tiles << " tiles: a larger block would read the panels less often";
  }
}

// 32 groups of 16 channels, channels last, 28 rows of 28 points: rows are walked through all groups, not groups through all
// rows.
TEST(CacheBlocks, PiecesOfRunsStayInTheCache) {
  const Expr data = axis(0) * Expr(28 * 512) + axis(1) * Expr(512) + axis(2) * Expr(16) + axis(3);
  PanelSizes panel{32, 1024, 1024, {{2, 32}, {3, 16}}, 64};
  const BlockOfPoints cut = choose_block_of_points({{0, 1, 28}, {1, 7, 4}}, data, panel, 256 << 10);
  EXPECT_EQ(cut.loop, 0u);
  EXPECT_GT(cut.inner, 0) << "all points at once";
  EXPECT_LE(cut.inner * 28 * 512 * 4, 256 << 10);
  panel.piece = 2048;  // long enough to come by itself
  EXPECT_EQ(choose_block_of_points({{0, 1, 28}, {1, 7, 4}}, data, panel, 256 << 10).inner, 0);
}

// 14 rows of 14 points, 64 channels to 384: all is in the cache, and workers take rows rather than channels. Not where the
// weights are the larger part; and a run that decides how many rows there are has several blocks, whatever the cache holds.
TEST(CacheBlocks, WorkersShareRowsWhereWeightsAreFew) {
  const Expr data = axis(0) * Expr(14 * 64) + axis(1) * Expr(64) + axis(2);
  PanelSizes panel{6, 64 * 64 * 4, 64 * 64 * 4, {{2, 64}}, 0, 64};
  EXPECT_EQ(choose_block_of_points({{0, 1, 14}, {1, 5, 3}}, data, panel, 2 << 20).inner, 7);
  const BlockOfPoints open = choose_block_of_points({{0, 1, 14, 1 << 20}, {1, 5, 3}}, data, panel, 2 << 20);
  EXPECT_TRUE(open.shared);
  EXPECT_GE(open.inner, 14);
  panel.panels = 60;
  panel.lanes = 4;
  EXPECT_EQ(choose_block_of_points({{0, 1, 14}, {1, 5, 3}}, data, panel, 2 << 20).inner, 0);
}

TEST(CacheBlocks, PrimeNumbersOfPointsAndPanels) {
  Graph g;
  std::vector<Tensor> inputs;
  auto input = [&](Shape shape, std::vector<int64_t> dims, int step) {
    inputs.push_back(ramp(std::move(dims), step));
    return g.add_input("x" + std::to_string(inputs.size()), Type{TypeKind::tensor, DType::f32, std::move(shape)});
  };
  // The products lie behind each other in one value, the last one first: points that do not exist would overwrite the next.
  for (int64_t columns : {64, 515}) {
    std::vector<Var*> products;
    for (int64_t rows : {499, 757, 911})
      products.push_back(matmul(g, input({rows, 32}, {rows, 32}, 3), input({32, columns}, {32, columns}, 5)));
    g.outputs.push_back(concat(g, {products.rbegin(), products.rend()}, 0));
  }
  std::vector<Tensor> expected = evaluate(g, inputs);
  CompileOptions options;
  options.cpu = cpu_target("native");
  options.cpu.l2_bytes = 32 << 10;  // so that small products are cut
  CompiledModel model = compile_graph(g, options);
  size_t cut = 0;
  for (const KernelSource& kernel : model.run.kernels)
    for (const std::string& transform : kernel.schedule) cut += transform.find("points in blocks") == 0;
  EXPECT_GE(cut, 3u) << "products that are not cut test nothing here";
  WeightsBlock weights = run_prepare(model, options.cpu);
  for (int threads : {1, 2}) {
    std::vector<Tensor> found =
        JitProgram(std::make_shared<CompiledProgram>(model.run), weights, options.cpu, threads).run(inputs);
    for (size_t t = 0; t < expected.size(); ++t)
      for (int64_t k = 0; k < expected[t].element_count(); ++k)
        ASSERT_NEAR(number_at(found[t], k), number_at(expected[t], k), 1e-3) << "product " << t << ", element " << k;
  }
}

}  // namespace
}  // namespace metac::cache_blocks_test
