// Kernels of open dims: the strategies of fixed ones, right at every size, and index arithmetic worked out where its loops
// begin.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <sstream>

#include "compiler/ir/builders.h"
#include "compiler/jit/jit_program.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/ops/typical_lengths.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/program/compile.h"
#include "compiler/program/memory/run_memory.h"
#include "compiler/region/fusion/fusion_facts.h"
#include "tests/unit/ramp.h"

namespace metac::open_dims_test {
namespace {

// 3 by 3 with as much padding as taps are apart, of [images, channels, height, width], all but the channels open.
Var* convolution(Graph& g, Var* x, int64_t filters, int64_t stride, int64_t apart = 1) {
  Var* padded = pad(g, x, {0, 0, apart, apart}, {0, 0, apart, apart}, float_constant(0, DType::f32));
  const Expr channels = x->shape()[1];
  const auto points = [&](size_t k) { return floor_div(x->shape()[k] - Expr(1), stride) + Expr(1); };
  const Shape all = {x->shape()[0], filters, points(2), points(3), channels, 3, 3};
  Var* w = g.add_constant(numbers({filters, channels.as_int(), 3, 3}));
  Var* data = g.reindex(
      {padded}, all,
      {axis(0), axis(4), axis(2) * Expr(stride) + axis(5) * Expr(apart), axis(3) * Expr(stride) + axis(6) * Expr(apart)});
  Var* weights = g.reindex({w}, all, {axis(1), axis(4), axis(5), axis(6)});
  return reduce(g, map(g, Fn::mul, data, weights), {4, 5, 6}, Reduce::add, false);
}

// A model whose input x is [images, channels, height, width], all but the channels open.
struct Network {
  Graph g;
  Network(int64_t channels, int64_t side, const std::function<Var*(Graph&, Var*)>& nodes) {
    const int n = g.add_symbol({.name = "n", .min = 1, .hint = 1, .from_input = true});
    const int h = g.add_symbol({.name = "h", .min = 1, .hint = side, .from_input = true});
    const int w = g.add_symbol({.name = "w", .min = 1, .hint = side, .from_input = true});
    Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f32, {symbol(n), channels, symbol(h), symbol(w)}});
    g.outputs = {nodes(g, x)};
  }
};

// Compares the program of one graph, the model of which `reference` is too, with the evaluator at these shapes; returns the
// schedules of its kernels.
std::string expect_right_at(Graph& g, const Graph& reference, const char* cpu,
                            const std::vector<std::vector<int64_t>>& shapes, int64_t l2_bytes = 0) {
  CompileOptions options;
  options.cpu = cpu_target(cpu);
  if (l2_bytes > 0) options.cpu.l2_bytes = l2_bytes;
  CompiledModel model = compile_graph(g, options);
  std::string schedules;
  for (const KernelSource& kernel : model.run.kernels)
    for (const std::string& line : kernel.schedule) schedules += line + "\n";
  const WeightsBlock weights = run_prepare(model, options.cpu);
  JitProgram program(std::make_shared<CompiledProgram>(std::move(model.run)), weights, options.cpu, 2);
  for (const std::vector<int64_t>& shape : shapes) {
    const std::vector<Tensor> inputs = {numbers(shape)}, expected = evaluate(reference, inputs), found = program.run(inputs);
    EXPECT_EQ(found[0].shape, expected[0].shape);
    double largest = 0, worst = 0;
    for (int64_t k = 0; k < expected[0].element_count(); ++k) {
      largest = std::max(largest, std::abs(number_at(expected[0], k)));
      worst = std::max(worst, std::abs(number_at(expected[0], k) - number_at(found[0], k)));
    }
    EXPECT_LE(worst, 2e-5 * largest) << cpu << " at " << testing::PrintToString(shape);
  }
  return schedules;
}

Var* three_convolutions(Graph& g, Var* x) { return convolution(g, convolution(g, convolution(g, x, 32, 2), 32, 1), 24, 1); }

TEST(OpenDims, ConvolutionsAreRightAtEverySize) {
  for (const char* cpu : {"native", "x86-64-v3", "x86-64"}) {
    // What is compiled is no longer the model's graph.
    Network network(16, 56, three_convolutions), reference(16, 56, three_convolutions);
    const std::string schedules =
        expect_right_at(network.g, reference.g, cpu,
                        {{1, 16, 56, 56}, {1, 16, 1, 1}, {3, 16, 2, 29}, {1, 16, 31, 7}, {2, 16, 47, 1}, {9, 16, 5, 6}});
    EXPECT_THAT(schedules, testing::HasSubstr("minimal filtering")) << cpu;
    EXPECT_THAT(schedules, testing::HasSubstr("lanes in registers")) << cpu;
  }
}

// The batch alone is open: blocks of minimal filtering are of whole images, as many as a run has for them.
TEST(OpenDims, FilteredImagesShareBlocks) {
  const auto build = [](Graph& g) {
    const int n = g.add_symbol({.name = "n", .min = 1, .hint = 1, .from_input = true});
    Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f32, {symbol(n), 96, 12, 12}});
    g.outputs = {convolution(g, x, 96, 1)};
  };
  for (const char* cpu : {"native", "x86-64-v3"}) {
    Graph open, reference;
    build(open), build(reference);
    const std::string schedules =
        expect_right_at(open, reference, cpu, {{1, 96, 12, 12}, {2, 96, 12, 12}, {3, 96, 12, 12}, {5, 96, 12, 12}});
    EXPECT_THAT(schedules, testing::HasSubstr("minimal filtering")) << cpu;
  }
}

// Of taps far apart most read the zeros around small data, in some rows and columns of tiles all do.
TEST(OpenDims, TapsInTheBorderAreLeftOut) {
  for (const char* cpu : {"native", "x86-64-v3", "x86-64"}) {
    const auto apart = [](Graph& g, Var* x) { return convolution(g, convolution(g, x, 32, 2, 9), 48, 1, 20); };
    Network network(16, 28, apart), reference(16, 28, apart);
    const std::string schedules = expect_right_at(
        network.g, reference.g, cpu, {{1, 16, 28, 28}, {2, 16, 5, 60}, {1, 16, 61, 7}, {1, 16, 1, 1}, {1, 16, 41, 40}});
    EXPECT_THAT(schedules, testing::HasSubstr("taps that read the border alone are left out"));
  }
}

// A panel that outgrows the cache is read once for all tiles of a block, whatever rows and images they are of.
TEST(OpenDims, TilesOfAllRowsAddAChunkTogether) {
  for (const char* cpu : {"native", "x86-64-v3", "x86-64"}) {
    const int64_t small_cache = int64_t{1536} * cpu_target(cpu).vector_bytes;
    const auto nodes = [](Graph& g, Var* x) { return convolution(g, x, 390, 2); };
    Network network(32, 14, nodes), reference(32, 14, nodes);
    const std::string schedules =
        expect_right_at(network.g, reference.g, cpu,
                        {{1, 32, 14, 14}, {2, 32, 5, 9}, {1, 32, 1, 1}, {1, 32, 2, 31}, {5, 32, 13, 7}}, small_cache);
    EXPECT_THAT(schedules, testing::HasSubstr("points in even blocks of at most")) << cpu;
    EXPECT_THAT(schedules, testing::HasSubstr("each added to all tiles of a block")) << cpu;
  }
}

// Runs of few tiles have blocks of their own, shared out by groups of filters.
TEST(OpenDims, FewTilesAreRight) {
  const auto nodes = [](Graph& g, Var* x) { return convolution(g, x, 64, 1); };
  Network network(64, 224, nodes), reference(64, 224, nodes);
  const std::string schedules =
      expect_right_at(network.g, reference.g, "x86-64-v3",
                      {{1, 64, 1, 1}, {1, 64, 5, 4}, {2, 64, 3, 9}, {1, 64, 12, 11}, {5, 64, 8, 1}, {1, 64, 21, 24}});
  EXPECT_THAT(schedules, testing::HasSubstr("minimal filtering"));
}

// A window of nine steps: whoever works on a row takes its tiles one after the other, and asks once whether a tile is whole.
TEST(OpenDims, CheapTilesGoRowByRow) {
  const auto depthwise = [](Graph& g, Var* x) {
    Var* padded = pad(g, x, {0, 0, 1, 1}, {0, 0, 1, 1}, float_constant(0, DType::f32));
    const Shape all = {x->shape()[0], x->shape()[1], x->shape()[2], x->shape()[3], 3, 3};
    Var* w = g.add_constant(numbers({x->shape()[1].as_int(), 3, 3}));
    Var* data = g.reindex({padded}, all, {axis(0), axis(1), axis(2) + axis(4), axis(3) + axis(5)});
    return reduce(g, map(g, Fn::mul, data, g.reindex({w}, all, {axis(1), axis(4), axis(5)})), {4, 5}, Reduce::add, false);
  };
  Network network(24, 56, depthwise), reference(24, 56, depthwise);
  const std::string schedules = expect_right_at(
      network.g, reference.g, "x86-64-v3", {{1, 24, 56, 56}, {1, 24, 1, 1}, {3, 24, 2, 5}, {2, 24, 7, 6}, {1, 24, 9, 13}});
  EXPECT_THAT(schedules, testing::HasSubstr("one after the other"));
}

// A panel of 4096 rows is added chunk by chunk, and what is left of a block of tiles is several tiles: the sums of each
// wait between chunks in a place of their own.
TEST(OpenDims, SumsInChunksAreRightForEveryRest) {
  constexpr int64_t steps = 4096, filters = 768;
  Graph g;
  const int n = g.add_symbol({.name = "n", .min = 1, .hint = 128, .from_input = true});
  Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f32, {symbol(n), steps}});
  g.outputs = {matmul(g, x, g.add_constant(numbers({steps, filters})))};
  CompileOptions options;
  options.cpu = cpu_target("x86-64-v3");
  options.cpu.l2_bytes = 1 << 20;
  CompiledModel model = compile_graph(g, options);
  std::string schedules;
  for (const KernelSource& kernel : model.run.kernels)
    for (const std::string& line : kernel.schedule) schedules += line + "\n";
  ASSERT_THAT(schedules, testing::HasSubstr("chunks, each added"));
  const auto number = [](int64_t k) { return static_cast<double>(k * 7 % 23) / 16 - 0.5; };  // what numbers() gives
  std::vector<double> expected;
  for (int64_t row = 0; row < 15; ++row)
    for (int64_t column = 0; column < filters; column += 37) {
      expected.push_back(0);
      for (int64_t k = 0; k < steps; ++k) expected.back() += number(row * steps + k) * number(k * filters + column);
    }
  const WeightsBlock weights = run_prepare(model, options.cpu);
  JitProgram program(std::make_shared<CompiledProgram>(std::move(model.run)), weights, options.cpu, 2);
  for (int64_t rows : {1, 2, 3, 5, 6, 7, 8, 11, 13, 15}) {
    const std::vector<Tensor> found = program.run(std::vector<Tensor>{numbers({rows, steps})});
    ASSERT_EQ(found[0].shape, (std::vector<int64_t>{rows, filters}));
    size_t next = 0;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < filters; column += 37)
        ASSERT_NEAR(number_at(found[0], row * filters + column), expected[next++], 1e-2)
            << "row " << row << " of " << rows << ", column " << column;
  }
}

std::string schedules_of(Graph& g, const char* cpu = "x86-64-v3") {
  CompileOptions options;
  options.cpu = cpu_target(cpu);
  const CompiledModel model = compile_graph(g, options);
  std::string all;
  for (const KernelSource& kernel : model.run.kernels)
    for (const std::string& line : kernel.schedule) all += line + "\n";
  return all;
}

// Three filters leave lanes along the channels empty: they run along the rows of the image, as long as these may be.
// Borders of 3 rows and of 2 and 9 columns that show what lies inside, as Pad has them: most of a row is a copy, in lanes.
TEST(OpenDims, BordersThatReflectAreSplitOff) {
  const std::vector<std::vector<int64_t>> shapes = {
      {1, 5, 40, 40}, {2, 5, 1, 1}, {1, 5, 2, 3}, {3, 5, 4, 9}, {1, 5, 33, 200}};
  for (const bool reflects : {true, false})
    for (const char* cpu : {"native", "x86-64-v3"}) {
      const auto network = [&](int64_t side) {
        return Network(5, side, [&](Graph& g, Var* x) {
          std::vector<Expr> index = identity_indices(4);
          Shape shape = x->shape();
          const int64_t before[] = {3, 2}, after[] = {3, 9};
          for (size_t k : {0, 1}) {
            const Expr extent = x->shape()[2 + k], at = axis(static_cast<int>(2 + k)) - Expr(before[k]),
                       last = extent - Expr(1), phase = floor_mod(at, last * Expr(2)),
                       inside = logical_and(Expr(0) <= at, at < extent);
            shape[2 + k] = extent + Expr(before[k] + after[k]);
            index[2 + k] = reflects ? select(inside, at, min(phase, last * Expr(2) - phase)) : max(min(at, last), Expr(0));
          }
          return g.reindex({x}, shape, index, {}, float_constant(0, DType::f32));
        });
      };
      Network open = network(40), reference = network(40);
      EXPECT_THAT(expect_right_at(open.g, reference.g, cpu, shapes), testing::HasSubstr("index set split")) << cpu;
    }
}

// Windows along short rows of an open batch: which of the two has the points of a tile is a run's to say.
TEST(OpenDims, TilesRunAlongTheBatchWhereRowsAreShort) {
  const auto build = [](Graph& g) {
    const int n = g.add_symbol({.name = "n", .min = 1, .hint = 1, .from_input = true});
    const int t = g.add_symbol({.name = "t", .min = 1, .hint = 9, .from_input = true});
    Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f32, {symbol(n), 16, symbol(t)}});
    Var* padded = pad(g, x, {0, 0, 1}, {0, 0, 1}, float_constant(0, DType::f32));
    const Shape all = {symbol(n), 32, floor_div(symbol(t) - Expr(1), 2) + Expr(1), 16, 3};
    Var* data = g.reindex({padded}, all, {axis(0), axis(3), axis(2) * Expr(2) + axis(4)});
    Var* weights = g.reindex({g.add_constant(numbers({32, 16, 3}))}, all, {axis(1), axis(3), axis(4)});
    g.outputs = {reduce(g, map(g, Fn::mul, data, weights), {3, 4}, Reduce::add, false)};
  };
  for (const char* cpu : {"native", "x86-64-v3"}) {
    Graph open, reference;
    build(open), build(reference);
    const std::string schedules =
        expect_right_at(open, reference, cpu, {{1, 16, 9}, {8, 16, 7}, {13, 16, 1}, {1, 16, 200}, {40, 16, 33}, {2, 16, 2}});
    EXPECT_THAT(schedules, testing::HasSubstr("points along the other axis")) << cpu;
  }
}

TEST(OpenDims, LanesOfFewFiltersRunAlongRows) {
  Graph g;
  const int h = g.add_symbol({.name = "h", .min = 1, .hint = 224, .from_input = true});
  const int w = g.add_symbol({.name = "w", .min = 1, .hint = 224, .from_input = true});
  Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f32, {1, 32, symbol(h), symbol(w)}});
  g.outputs = {convolution(g, x, 3, 1)};
  EXPECT_THAT(schedules_of(g), testing::HasSubstr("tile: 3 points by 3 vectors of 8 lanes"));
}

// Statistics of channels that lie last, and a copied border behind them, of images of any size: lanes across the channels.
TEST(OpenDims, LanesGoAcrossRowsOfAnyLength) {
  Graph g;
  const int h = g.add_symbol({.name = "h", .min = 1, .hint = 56, .from_input = true});
  const int w = g.add_symbol({.name = "w", .min = 1, .hint = 56, .from_input = true});
  Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f32, {1, 16, symbol(h), symbol(w)}});
  Var* y = convolution(g, x, 32, 1);
  Var* largest = broadcast_to(g, reduce(g, y, {2, 3}, Reduce::max, true), y->shape());
  Var* scaled = map(g, Fn::mul, map(g, Fn::sub, y, largest), map(g, Fn::sub, y, largest));
  const Shape higher = {1, 32, symbol(h) + Expr(2), symbol(w)};
  Var* copied = g.reindex({scaled}, higher, {axis(0), axis(1), min(axis(2), symbol(h) - Expr(1)), axis(3)});
  g.outputs = {convolution(g, copied, 16, 1)};
  EXPECT_THAT(schedules_of(g), testing::HasSubstr("lanes across"));
}

// A row of seven points is one tile, not as many as a row of unknown length may have: eight images of such rows would not
// fit into the cache, one does.
TEST(OpenDims, FewTilesMayBeManyPoints) {
  Graph g;
  const int n = g.add_symbol({.name = "n", .min = 1, .hint = 1, .from_input = true});
  const int h = g.add_symbol({.name = "h", .min = 1, .hint = 14, .from_input = true});
  const int w = g.add_symbol({.name = "w", .min = 1, .hint = 14, .from_input = true});
  Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f32, {symbol(n), 128, symbol(h), symbol(w)}});
  g.outputs = {convolution(g, x, 256, 2)};
  const std::string schedules = schedules_of(g, "x86-64-v4");
  EXPECT_THAT(schedules, testing::HasSubstr("tile: "));
  // Blocks are for runs that no cache holds: the seven rows of a typical one are one block.
  const std::string cut = "points in blocks of ";
  const size_t at = schedules.find(cut);
  ASSERT_NE(at, std::string::npos);
  EXPECT_GE(std::stoi(schedules.substr(at + cut.size())), 7);
}

// What makes a frame of 320 samples is for more than 128 of them; a dim that stays short says nothing.
TEST(OpenDims, SequencesAreTypicallyLongEnough) {
  const auto hint_for = [](const std::function<Expr(Expr)>& length) {
    Graph g;
    const int n = g.add_symbol({.name = "n", .min = 1, .max = 1'000'000'000, .hint = 128, .from_input = true});
    Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f32, {symbol(n)}});
    g.outputs = {g.reindex({x}, {length(symbol(n))}, {axis(0)})};
    choose_typical_lengths(g, {n});
    return g.symbols[static_cast<size_t>(n)].hint;
  };
  EXPECT_EQ(hint_for([](Expr n) { return n - Expr(2); }), 128);
  EXPECT_EQ(hint_for([](Expr n) { return floor_div(n, 320); }), 4096);
  EXPECT_EQ(hint_for([](Expr n) { return n - Expr(400); }), 512);
  EXPECT_EQ(hint_for([](Expr n) { return min(n, Expr(5)); }), 128);
}

// What is multiplied has as many columns as the weights have rows, which is a number: the sum is as long as that.
TEST(OpenDims, SumsAreAsLongAsTheWeightsSay) {
  Graph g;
  const int n = g.add_symbol({.name = "n", .min = 1, .hint = 8, .from_input = true});
  const int k = g.add_symbol({.name = "k", .min = 1, .hint = 128, .from_input = true});
  Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f32, {symbol(n), symbol(k)}});
  g.outputs = {matmul(g, x, g.add_constant(numbers({96, 64})))};
  CompileOptions options;
  const CompiledModel model = compile_graph(g, options);
  std::string schedules;
  for (const KernelSource& kernel : model.run.kernels)
    for (const std::string& line : kernel.schedule) schedules += line + "\n";
  EXPECT_THAT(schedules, testing::HasSubstr("lanes in registers"));
}

// A slice of a value has fewer elements than it whatever the batch is; a broadcast over the batch may have more.
TEST(OpenDims, ElementsAreComparedForEverySize) {
  const std::vector<Symbol> symbols = {{.name = "n", .min = 1, .from_input = true},
                                       {.name = "h", .min = 3, .from_input = true},
                                       {.name = "w", .min = 3, .from_input = true}};
  const Expr n = symbol(0), h = symbol(1), w = symbol(2);
  const auto fits = [&](Shape reader, Shape read) {
    Definition r, d;
    r.domain = std::move(reader);
    d.domain = std::move(read);
    return no_more_elements(r, d, symbols);
  };
  EXPECT_TRUE(fits({n, 172, 264, 8}, {n, 172, 309, 8}));
  EXPECT_TRUE(fits({n, 16, h - Expr(2), w - Expr(2)}, {n, 16, h, w}));
  EXPECT_TRUE(fits({n, h, 4}, {n, h, 2, 2}));
  EXPECT_FALSE(fits({n, 172, 309, 8}, {n, 172, 264, 8}));
  EXPECT_FALSE(fits({n, 16, h}, {16, h}));
  EXPECT_FALSE(fits({h, 16}, {w, 16}));
}

// Zeros around a value reach as far as windows do, not as far as the range of a dim.
TEST(OpenDims, RangesTakeNoMemory) {
  const auto memory = [](int64_t most) {
    Graph g;
    const int h = g.add_symbol({.name = "h", .min = 16, .max = most, .divisor = 16, .hint = 224, .from_input = true});
    const int w = g.add_symbol({.name = "w", .min = 16, .max = most, .divisor = 16, .hint = 224, .from_input = true});
    Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f32, {1, 16, symbol(h), symbol(w)}});
    for (int level = 0; level < 3; ++level) x = convolution(g, convolution(g, x, 32, 1), 32, 2);
    g.outputs = {convolution(g, x, 32, 1)};
    CompileOptions options;
    options.cpu = cpu_target("x86-64-v4");
    return typical_arena_bytes(compile_graph(g, options).run);
  };
  EXPECT_LE(memory(4096), memory(1'000'000'000) * 1.1);
}

// A dim of the third level is a quotient of quotients: nobody works it out for each element.
TEST(OpenDims, NoDivisionsWhereElementsAreRead) {
  Network network(16, 224, three_convolutions);
  CompileOptions options;
  options.cpu = cpu_target("x86-64-v4");
  int reads = 0;
  for (const KernelSource& kernel : compile_graph(network.g, options).run.kernels) {
    std::istringstream text(kernel.text);
    for (std::string line; std::getline(text, line);) {
      if (line.find("load<") == std::string::npos && line.find("store(") == std::string::npos) continue;
      ++reads;
      EXPECT_THAT(line, testing::Not(testing::AnyOf(testing::HasSubstr(" / "), testing::HasSubstr("floor_div"),
                                                    testing::HasSubstr("floor_mod"))));
    }
  }
  EXPECT_GT(reads, 100);
}

}  // namespace
}  // namespace metac::open_dims_test
