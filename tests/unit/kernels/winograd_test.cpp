// Minimal filtering: the matrices of cook_toom.h against the sum they stand for, in float64; convolutions of two and of
// three dimensions against the reference.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "compiler/autodiff/gradient.h"
#include "compiler/ir/builders.h"
#include "compiler/jit/jit_program.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/program/compile.h"
#include "compiler/target/cpu/layouts/plan_winograd.h"
#include "compiler/target/cpu/strategies/cook_toom.h"
#include "compiler/target/cpu/strategies/cpu_strategies.h"

namespace metac::winograd_test {
namespace {

std::vector<double> times(const Matrix& m, const std::vector<double>& v) {
  std::vector<double> out;
  for (const std::vector<double>& row : m) {
    double sum = 0;
    for (size_t k = 0; k < row.size(); ++k) sum += row[k] * v[k];
    out.push_back(sum);
  }
  return out;
}

class CookToomTest : public testing::TestWithParam<std::pair<int, int>> {};

TEST_P(CookToomTest, IsTheSlidingSum) {
  auto [m, r] = GetParam();
  CookToom t = cook_toom(m, r);
  ASSERT_EQ(t.at.size(), static_cast<size_t>(m));
  ASSERT_EQ(t.bt.size(), static_cast<size_t>(m + r - 1));
  std::mt19937 random(1);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> data(static_cast<size_t>(m + r - 1)), taps(static_cast<size_t>(r));
  for (double& x : data) x = uniform(random);
  for (double& x : taps) x = uniform(random);
  std::vector<double> u = times(t.g, taps), v = times(t.bt, data);
  for (size_t k = 0; k < u.size(); ++k) u[k] *= v[k];
  std::vector<double> y = times(t.at, u);
  for (int i = 0; i < m; ++i) {
    double direct = 0;
    for (int k = 0; k < r; ++k) direct += data[static_cast<size_t>(i + k)] * taps[static_cast<size_t>(k)];
    EXPECT_NEAR(y[static_cast<size_t>(i)], direct, 1e-11) << "point " << i << " of F(" << m << ", " << r << ")";
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, CookToomTest,
                         testing::Values(std::pair(2, 3), std::pair(4, 3), std::pair(6, 3), std::pair(2, 5), std::pair(4, 5),
                                         std::pair(3, 2)));

Tensor uniform(std::vector<int64_t> shape, unsigned seed) {
  std::mt19937 random(seed);
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  std::vector<float> values;
  for (int64_t k = 0; k < n; ++k) values.push_back(static_cast<float>(random() % 1000) / 500 - 1);
  return make_tensor<float>(DType::f32, std::move(shape), values);
}

// A convolution with padding 1 of x[1, channels, spatial...], stride `first_stride` along the first spatial axis; `w`: its
// weights, null for constant ones.
Var* convolution(Graph& g, Var* x, int64_t filters, int64_t first_stride, Var* w = nullptr) {
  int spatial = x->rank() - 2;
  std::vector<Expr> one(static_cast<size_t>(spatial) + 2, 0), fill = one;
  for (int k = 0; k < spatial; ++k) one[static_cast<size_t>(k) + 2] = 1;
  Var* padded = pad(g, x, one, one, float_constant(0, DType::f32));
  int64_t channels = x->shape()[1].as_int();
  std::vector<int64_t> window = {filters, channels};
  Shape all = {x->shape()[0], filters};
  std::vector<Expr> data = {axis(0), axis(2 + spatial)}, weights = {axis(1), axis(2 + spatial)};
  for (int k = 0; k < spatial; ++k) {
    int64_t stride = k == 0 ? first_stride : 1;
    all.push_back((x->shape()[static_cast<size_t>(k) + 2].as_int() - 1) / stride + 1);
    window.push_back(3);
    data.push_back(axis(2 + k) * Expr(stride) + axis(3 + spatial + k));
    weights.push_back(axis(3 + spatial + k));
  }
  all.push_back(channels);
  std::vector<int> summed = {2 + spatial};
  for (int k = 0; k < spatial; ++k) {
    all.push_back(3);
    summed.push_back(3 + spatial + k);
  }
  if (!w) w = g.add_constant(uniform(window, 7));
  return reduce(g, map(g, Fn::mul, g.reindex({padded}, all, data), g.reindex({w}, all, weights)), summed, Reduce::add,
                false);
}

TEST(MinimalFiltering, ConvolutionsOfTwoAndThreeDimensions) {
  struct Case {
    std::vector<int64_t> shape;
    int64_t filters, first_stride;
    bool filtered;
  };
  for (const Case& one : {Case{{1, 32, 16, 14}, 32, 1, true}, Case{{1, 16, 3, 16, 15}, 32, 1, true},
                          Case{{1, 16, 4, 12, 12}, 32, 2, true}, Case{{1, 32, 16, 14}, 32, 2, false}}) {
    for (const char* cpu : {"native", "x86-64-v3"}) {
      Graph g;
      Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f32, shape_of(one.shape)});
      // Twice: the data between them has its channels together, with a halo.
      Var* y = convolution(g, convolution(g, x, one.shape[1], 1), one.filters, one.first_stride);
      g.outputs = {y};
      std::vector<Tensor> inputs = {uniform(one.shape, 3)}, expected = evaluate(g, inputs);
      CompileOptions options;
      options.cpu = cpu_target(cpu);
      CompiledModel model = compile_graph(g, options);
      int filtered = 0;
      for (const KernelSource& kernel : model.run.kernels)
        for (const std::string& line : kernel.schedule) filtered += line.find("minimal filtering") != std::string::npos;
      EXPECT_EQ(filtered, one.filtered ? 2 : 1) << cpu << ", rank " << one.shape.size();
      WeightsBlock weights = run_prepare(model, options.cpu);
      std::vector<Tensor> found =
          JitProgram(std::make_shared<CompiledProgram>(std::move(model.run)), weights, options.cpu, 2).run(inputs);
      for (int64_t k = 0; k < expected[0].element_count(); ++k)
        ASSERT_NEAR(number_at(found[0], k), number_at(expected[0], k), 0.02) << cpu << ", element " << k;
    }
  }
}

// The N of F(N x N, 3 x 3) in the schedules of a graph with one convolution; 0: plain sums.
int outputs_of_a_tile(const CompiledModel& model) {
  const std::string sign = "minimal filtering F(";
  for (const KernelSource& kernel : model.run.kernels)
    for (const std::string& line : kernel.schedule)
      if (size_t at = line.find(sign); at != std::string::npos) return line[at + sign.size()] - '0';
  return 0;
}

// What was fastest where an image has few tiles, its weights from memory: each tile of data is used little, the weights come
// once.
TEST(MinimalFiltering, OfFewTiles) {
  struct Case {
    const char* cpu;
    int64_t side, channels, filters;
    int outputs;
  };
  for (const Case& one :
       {Case{"x86-64-v3", 7, 512, 512, 2}, Case{"x86-64-v3", 14, 128, 32, 4}, Case{"x86-64-v3", 13, 64, 256, 4},
        Case{"x86-64-v3", 14, 256, 256, 4}, Case{"x86-64-v4", 7, 512, 512, 2}, Case{"x86-64-v4", 28, 128, 32, 4},
        Case{"x86-64-v4", 28, 256, 256, 4}, Case{"x86-64-v4", 4, 512, 512, 0}}) {
    Graph g;
    Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f32, shape_of({1, one.channels, one.side, one.side})});
    g.outputs = {convolution(g, x, one.filters, 1)};
    CompileOptions options;
    options.cpu = cpu_target(one.cpu);
    EXPECT_EQ(outputs_of_a_tile(compile_graph(g, options)), one.outputs)
        << one.cpu << ", " << one.side << "x" << one.side << ", " << one.channels << " to " << one.filters;
  }
}

// A slice of the batch has blocks of its own, for weights that are packed already: with AVX2 a row of 14 tiles would rather
// have four vectors of filters.
TEST(MinimalFiltering, RegisterTileForPackedWeights) {
  Definition d;
  d.domain = shape_of({1, 32, 56, 56, 128, 3, 3});
  d.reduced = 3;
  WinogradPlan plan;
  plan.image = 0, plan.lanes_axis = 1, plan.y = 2, plan.x = 3, plan.channel = 4, plan.window_y = 5, plan.window_x = 6;
  plan.vectors = 2;
  choose_tile_blocks(d, plan, cpu_target("x86-64-v3"), {});
  EXPECT_EQ(plan.vectors, 2);
  EXPECT_GE(plan.tile, 4);  // 2 where the tile was that of four vectors
  EXPECT_LE((plan.tile + 1) * plan.vectors + 1, 16);
}

// Of open sides, runs of few tiles are shared out by groups of filters, and the more tiles there are the fewer.
TEST(MinimalFiltering, BlocksForRunsOfFewTiles) {
  std::vector<Symbol> symbols(2);
  for (Symbol& s : symbols) s.min = 1, s.hint = 224, s.from_input = true;
  Definition d;
  d.domain = {1, 256, symbol(0), symbol(1), 256, 3, 3};
  d.reduced = 3;
  WinogradPlan plan;
  plan.image = 0, plan.lanes_axis = 1, plan.y = 2, plan.x = 3, plan.channel = 4, plan.window_y = 5, plan.window_x = 6;
  plan.vectors = 2;
  choose_tile_blocks(d, plan, cpu_target("x86-64-v3"), symbols);
  ASSERT_GE(plan.by_size.size(), 2U);
  EXPECT_EQ(plan.by_size.back().up_to, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(plan.by_size.back().lane_groups, 1);
  for (size_t k = 1; k < plan.by_size.size(); ++k) EXPECT_LT(plan.by_size[k - 1].up_to, plan.by_size[k].up_to);
  const FilterBlocks& few = plan.by_size[0];  // a map of 24 points a side has 36 tiles
  EXPECT_GE(few.up_to, 36);
  EXPECT_GE((36 + few.tiles - 1) / few.tiles * few.lane_groups, 4);
}

// Where only the batch is open: images of 8 or 7 points a side share the weights that a block reads.
TEST(MinimalFiltering, BlocksOfWholeImages) {
  for (const int64_t side : {8, 7}) {
    std::vector<Symbol> symbols(1);
    symbols[0].min = 1, symbols[0].hint = 1, symbols[0].from_input = true;
    Definition d;
    d.domain = {symbol(0), 512, side, side, 512, 3, 3};
    d.reduced = 3;
    WinogradPlan plan;
    plan.image = 0, plan.lanes_axis = 1, plan.y = 2, plan.x = 3, plan.channel = 4, plan.window_y = 5, plan.window_x = 6;
    plan.vectors = 2;
    choose_tile_blocks(d, plan, cpu_target("x86-64-v3"), symbols);
    ASSERT_TRUE(plan.whole_images);
    const int64_t tiles_a_side = (side + plan.outputs - 1) / plan.outputs;
    EXPECT_EQ(plan.rows, tiles_a_side);
    for (const FilterBlocks& blocks : plan.by_size) EXPECT_EQ(blocks.tiles % (tiles_a_side * tiles_a_side), 0);
    EXPECT_GE(plan.by_size.back().tiles, 2 * tiles_a_side * tiles_a_side);
  }
}

// Rounding errors against the plain sum in float64, as a share of the result (roots of mean squares). Products added one
// after the other in float32 are off by 0.7e-6 with 256 channels.
class Rounding : public ::testing::TestWithParam<int64_t> {};
TEST_P(Rounding, OfMinimalFilteringIsThatOfAPlainSum) {
  constexpr int64_t filters = 256, side = 16;
  const int64_t channels = GetParam();
  Graph g;
  Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f32, shape_of({1, channels, side, side})});
  g.outputs = {convolution(g, x, filters, 1)};
  const Tensor data = uniform({1, channels, side, side}, 3), weights = uniform({filters, channels, 3, 3}, 7);
  std::vector<double> expected;
  for (int64_t f = 0; f < filters; f += 64)
    for (int64_t row = 1; row + 1 < side; ++row)
      for (int64_t column = 1; column + 1 < side; ++column) {
        expected.push_back(0);
        for (int64_t c = 0; c < channels; ++c)
          for (int64_t i = 0; i < 9; ++i)
            expected.back() += number_at(data, (c * side + row + i / 3 - 1) * side + column + i % 3 - 1) *
                               number_at(weights, (f * channels + c) * 9 + i);
      }
  for (const char* cpu : {"native", "x86-64-v3"}) {
    CompileOptions options;
    options.cpu = cpu_target(cpu);
    CompiledModel model = compile_graph(g, options);
    bool filtered = false;
    for (const KernelSource& kernel : model.run.kernels)
      for (const std::string& line : kernel.schedule) filtered |= line.find("minimal filtering F(4x4") != std::string::npos;
    EXPECT_TRUE(filtered) << cpu;
    WeightsBlock prepared = run_prepare(model, options.cpu);
    const Tensor found =
        JitProgram(std::make_shared<CompiledProgram>(std::move(model.run)), prepared, options.cpu, 2).run({data})[0];
    double error = 0, size = 0;
    size_t next = 0;
    for (int64_t f = 0; f < filters; f += 64)
      for (int64_t row = 1; row + 1 < side; ++row)
        for (int64_t column = 1; column + 1 < side; ++column, ++next) {
          const double difference = number_at(found, (f * side + row) * side + column) - expected[next];
          error += difference * difference;
          size += expected[next] * expected[next];
        }
    EXPECT_LE(std::sqrt(error / size), 1.6e-6) << cpu;
  }
}
INSTANTIATE_TEST_SUITE_P(Channels, Rounding, ::testing::Values(256, 1024));

// A step of training: the weights come with each call, and the gradient reads its windows from their end with the filters
// turned.
TEST(MinimalFiltering, WeightsOfThisCallAndGradients) {
  Graph g;
  const std::vector<std::vector<int64_t>> shapes = {{8, 32, 20, 24}, {32, 32, 3, 3}, {32, 32, 3, 3}};
  std::vector<Var*> in;
  std::vector<Tensor> inputs;
  for (size_t k = 0; k < shapes.size(); ++k) {
    in.push_back(g.add_input("in" + std::to_string(k), Type{TypeKind::tensor, DType::f32, shape_of(shapes[k])}));
    inputs.push_back(uniform(shapes[k], static_cast<unsigned>(k) + 3));
  }
  Var* y = convolution(g, map(g, Fn::max, convolution(g, in[0], 32, 1, in[1]), scalar(g, DType::f32, 0)), 32, 1, in[2]);
  Var* seed =
      g.elementwise({}, y->shape(), call(Fn::sin, {cast(linear_index(y->shape(), identity_indices(4)), DType::f32)}));
  g.outputs = gradient(g, {y}, {seed}, in);
  g.outputs.push_back(y);
  CompileOptions options;
  options.cpu = cpu_target("native");
  int filtered = 0;
  const auto run = [&](int winograd) {
    options.winograd = winograd;
    CompiledModel model = compile_graph(g, options);
    filtered = 0;
    for (const KernelSource& kernel : model.run.kernels)
      for (const std::string& line : kernel.schedule) filtered += line.find("minimal filtering") != std::string::npos;
    WeightsBlock weights = run_prepare(model, options.cpu);
    return JitProgram(std::make_shared<CompiledProgram>(std::move(model.run)), weights, options.cpu, 2).run(inputs);
  };
  const std::vector<Tensor> expected = run(0);  // the reference would take minutes
  EXPECT_EQ(filtered, 0);
  const std::vector<Tensor> found = run(4);
  EXPECT_EQ(filtered, 3);  // both convolutions, and the gradient between them
  for (size_t r = 0; r < expected.size(); ++r) {
    double largest = 0;
    for (int64_t k = 0; k < expected[r].element_count(); ++k)
      largest = std::max(largest, std::fabs(number_at(expected[r], k)));
    for (int64_t k = 0; k < expected[r].element_count(); ++k)
      ASSERT_NEAR(number_at(found[r], k), number_at(expected[r], k), 2e-5 * largest) << "result " << r << ", element " << k;
  }
}

}  // namespace
}  // namespace metac::winograd_test
