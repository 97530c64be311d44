// Chains of kernels over slices of the batch: what may be cut is cut, what mixes images is not, and the numbers stay.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "compiler/ir/builders.h"
#include "compiler/ir/expr_table.h"
#include "compiler/jit/jit_program.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/program/compile.h"
#include "compiler/program/program_work.h"
#include "tests/unit/ramp.h"
#include "tests/unit/same_bytes.h"

namespace metac::slice_batches_test {
namespace {

constexpr int64_t images = 8, rows = 24, channels = 16;

Var* input(Graph& g) { return g.add_input("x", Type{TypeKind::tensor, DType::f32, {images, rows, rows, channels}}); }
Var* weights(Graph& g, int64_t from, int64_t to) { return g.add_constant(ramp({from, to}, 7), "", true); }

// A product, which is a kernel of its own.
Var* layer(Graph& g, Var* x, int64_t to) {
  return map(g, Fn::tanh, matmul(g, x, weights(g, x->shape().back().as_int(), to)));
}

// A profiled run takes the same way, counts every slice, and its steps' times are no more than its own.
void expect_profile_of_the_same(const CompiledModel& model, JitProgram& plain, JitProgram& profiled,
                                const std::vector<Tensor>& inputs, const std::vector<Tensor>& expected) {
  profiled.start_profile();
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<Tensor> found = profiled.run(inputs);
  const int64_t ns = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin).count();
  for (size_t t = 0; t < found.size(); ++t)
    EXPECT_TRUE(same_bytes(found[t], expected[t])) << "a profiled run answers otherwise";
  EXPECT_EQ(profiled.arena_bytes(), plain.arena_bytes()) << "workers had no slices of their own";
  const std::vector<std::optional<int64_t>> counts = step_counts(model, model.run);
  const std::vector<StepProfile> steps = profiled.profile();
  ASSERT_EQ(steps.size(), counts.size());
  double operations = 0, stated = 0;
  int64_t all = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool launch = model.run.steps[i].kind == rt::StepKind::launch;
    EXPECT_TRUE(!launch || counts[i] == steps[i].runs) << "step " << i << ": " << steps[i].runs;
    operations += steps[i].operations;
    all += steps[i].ns;
  }
  for (const KernelWork& kernel : kernel_works(model, model.run))
    stated += static_cast<double>(kernel.work.operations.as_int());
  EXPECT_EQ(operations, stated);
  EXPECT_GT(operations, 0);
  EXPECT_LE(all, ns);
}

struct Outcome {
  int64_t repeats = 0, arena_bytes = 0;
};

// Compiled for a machine whose last level holds a few images of the values between kernels.
Outcome expect_reference(Graph& g) {
  const std::vector<Tensor> inputs = {ramp({images, rows, rows, channels}, 5)};
  const std::vector<Tensor> expected = evaluate(g, inputs);
  CompileOptions options;
  options.cpu = cpu_target("native");
  options.cpu.l3_bytes = 2 << 20;
  CompiledModel model = compile_graph(g, options);
  Outcome outcome;
  outcome.repeats = std::count_if(model.run.steps.begin(), model.run.steps.end(),
                                  [](const auto& step) { return step.kind == rt::StepKind::repeat; });
  outcome.arena_bytes = model.run.arena_bytes;
  WeightsBlock block = run_prepare(model, options.cpu);
  std::vector<Tensor> by_one;
  for (int threads : {1, 2, 3, 5}) {  // two and three share the slices among them, with five some would have none
    JitProgram program(std::make_shared<CompiledProgram>(model.run), block, options.cpu, threads);
    const std::vector<Tensor> found = program.run(inputs);
    if (by_one.empty()) by_one = found;
    for (size_t t = 0; t < found.size(); ++t)
      for (int64_t k = 0; k < found[t].element_count(); ++k)
        EXPECT_EQ(number_at(found[t], k), number_at(by_one[t], k)) << threads << " threads, element " << k;
    for (size_t t = 0; t < found.size(); ++t)
      for (int64_t k = 0; k < found[t].element_count(); ++k)
        EXPECT_NEAR(number_at(found[t], k), number_at(expected[t], k), 1e-4) << "element " << k;
  }
  for (int threads : {1, 2}) {
    JitProgram plain(std::make_shared<CompiledProgram>(model.run), block, options.cpu, threads),
        profiled(std::make_shared<CompiledProgram>(model.run), block, options.cpu, threads);
    plain.run(inputs);
    expect_profile_of_the_same(model, plain, profiled, inputs, by_one);
  }
  return outcome;
}

// Open dims: any batch and height is answered as the graph says; what is repeated, and the arena, are the run's.
struct OpenCase {
  int64_t images, height;
  bool cut;  // more than one slice
};

bool expect_open(const std::function<Var*(Graph&, Var*)>& network, const std::vector<OpenCase>& cases,
                 int64_t typical_height = rows) {
  Graph g;
  const int batch = g.add_symbol({.name = "n", .min = 0, .max = 1 << 20, .from_input = true}),
            height = g.add_symbol({.name = "h", .min = 1, .max = 1 << 20, .hint = typical_height, .from_input = true});
  Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f32, {symbol(batch), symbol(height), rows, channels}});
  g.outputs = {network(g, x)};
  CompileOptions options;
  options.cpu = cpu_target("native");
  options.cpu.l3_bytes = 2 << 20;
  std::map<std::pair<int64_t, int64_t>, Tensor> expected;
  for (const OpenCase& c : cases)
    expected[{c.images, c.height}] = evaluate(g, {ramp({c.images, c.height, rows, channels}, 5)})[0];
  CompiledModel model = compile_graph(g, options);
  const auto is_repeat = [](const rt::Step& step) { return step.kind == rt::StepKind::repeat; };
  const bool cut = std::any_of(model.run.steps.begin(), model.run.steps.end(), is_repeat);
  WeightsBlock block = run_prepare(model, options.cpu);
  for (int threads : {1, 2}) {
    JitProgram program(std::make_shared<CompiledProgram>(model.run), block, options.cpu, threads),
        profiled(std::make_shared<CompiledProgram>(model.run), block, options.cpu, threads);
    profiled.start_profile();
    for (const OpenCase& c : cases) {
      const std::vector<Tensor> inputs = {ramp({c.images, c.height, rows, channels}, 5)};
      const Tensor found = program.run(inputs)[0], &right = expected[{c.images, c.height}];
      const std::string where = concat(c.images, " images of ", c.height, " rows, ", threads, " threads");
      EXPECT_EQ(found.shape, right.shape) << where;
      for (int64_t k = 0; k < found.element_count(); ++k)
        EXPECT_NEAR(number_at(found, k), number_at(right, k), 1e-4) << where << ", element " << k;
      const std::vector<StepProfile> before = profiled.profile();
      const Tensor again = profiled.run(inputs)[0];
      EXPECT_TRUE(same_bytes(again, found)) << where << ", profiled";
      const std::vector<StepProfile> after = profiled.profile();
      int64_t most = 0;
      double operations = 0;
      for (size_t i = 0; i < after.size(); ++i) {
        if (model.run.steps[i].kind == rt::StepKind::launch)
          most = std::max(most, after[i].runs - (before.empty() ? 0 : before[i].runs));
        operations += after[i].operations - (before.empty() ? 0 : before[i].operations);
      }
      EXPECT_EQ(most > 1, cut && c.cut) << where << ": " << most << " slices";
      const ExprScope scope(model.expressions);
      double stated = 0;
      for (const KernelWork& kernel : kernel_works(model, model.run)) {
        EXPECT_TRUE(kernel.work.operations) << "the work of a kernel is not known";
        if (!kernel.work.operations) continue;
        const Expr at = rewrite(kernel.work.operations, [&](Expr n) -> Expr {
          return n == symbol(batch) ? Expr(c.images) : n == symbol(height) ? Expr(c.height) : Expr();
        });
        stated += static_cast<double>(at.as_int());
      }
      EXPECT_EQ(operations, stated) << where;
    }
  }
  return cut;
}

// Behind a shape whose slices are shorter, one whose are longer; with a last one that is shorter; small ones, in halves but
// for three images; nothing at all.
const std::vector<OpenCase> open_cases = {{1, rows, false}, {7, rows, true},  {2, 5, true},  {3, 5, false},
                                          {70, 3, true},    {0, rows, false}, {5, 31, true}, {4, 2, true}};

TEST(SliceBatches, OpenBatchOfLayers) {
  EXPECT_TRUE(expect_open([](Graph& g, Var* x) { return layer(g, layer(g, layer(g, x, 64), 64), 8); }, open_cases));
}

// A typical image alone is more than the cache holds; smaller ones are cut none the less.
TEST(SliceBatches, OpenBatchOfImagesSmallerThanTypicalOnes) {
  EXPECT_TRUE(expect_open([](Graph& g, Var* x) { return layer(g, layer(g, layer(g, x, 64), 64), 8); },
                          {{1, rows, false}, {7, rows, true}, {3, 16 * rows, true}}, 16 * rows));
}

TEST(SliceBatches, OpenBatchOfGates) {
  EXPECT_TRUE(expect_open(
      [](Graph& g, Var* x) {
        Var* wide = layer(g, x, 64);
        Var* gate = layer(g, layer(g, mean(g, wide, {1, 2}, true), 4), 64);
        return layer(g, map(g, Fn::mul, wide, gate), 8);
      },
      open_cases));
}

// Rows of all images one after the other: image = floor(row / rows of an image), a product of open dims.
TEST(SliceBatches, OpenBatchOfFlattenedRows) {
  EXPECT_TRUE(expect_open(
      [](Graph& g, Var* x) {
        const Expr n = x->shape()[0], h = x->shape()[1];
        Var* flat = layer(g, reshape(g, x, {n * h, rows, channels}), 64);
        Var* centred = map(g, Fn::sub, flat, mean(g, flat, {1}, true));
        return layer(g, reshape(g, layer(g, centred, 64), {n, h, rows, 64}), 8);
      },
      open_cases));
}

// What reads other images than its own, or counts them, is the same in slices: it is none of them.
TEST(SliceBatches, OpenBatchThatMixes) {
  using Mix = std::function<Var*(Graph&, Var*)>;
  const std::vector<Mix> mixes = {
      [](Graph& g, Var* x) {
        return g.reindex({x}, x->shape(), {x->shape()[0] - Expr(1) - axis(0), axis(1), axis(2), axis(3)});
      },
      [](Graph& g, Var* x) {
        return g.reindex({x}, x->shape(), {floor_mod(axis(0) + Expr(1), x->shape()[0]), axis(1), axis(2), axis(3)});
      },
      [](Graph& g, Var* x) { return map(g, Fn::add, x, fill(g, x->shape(), cast(axis(0), DType::f32))); },
      [](Graph& g, Var* x) { return map(g, Fn::add, x, fill(g, x->shape(), cast(x->shape()[0], DType::f32))); },
      [](Graph& g, Var* x) { return map(g, Fn::sub, x, mean(g, x, {0}, true)); },
  };
  int cut = 0;
  for (const Mix& mix : mixes)
    cut += expect_open([&](Graph& g, Var* x) { return layer(g, layer(g, mix(g, layer(g, layer(g, x, 64), 64)), 64), 8); },
                       {{1, rows, false}, {7, rows, true}});
  EXPECT_GT(cut, 0) << "nothing is cut";
}

// The batch's first input has no elements, others have more than the cache holds.
TEST(SliceBatches, InputsWithoutElements) {
  Graph g;
  Var *nothing = g.add_input("x", Type{TypeKind::tensor, DType::f32, {4, 1, 0}}),
      *much = g.add_input("y", Type{TypeKind::tensor, DType::f32, {4, 1 << 20}});
  g.outputs = {map(g, Fn::sqrt, nothing), map(g, Fn::sqrt, much)};
  CompileOptions options;
  options.cpu = cpu_target("native");
  options.cpu.l3_bytes = 2 << 20;
  compile_graph(g, options);
}

TEST(SliceBatches, LayersOneAfterTheOther) {
  Graph g;
  g.outputs = {layer(g, layer(g, layer(g, input(g), 64), 64), 8)};
  EXPECT_GT(expect_reference(g).repeats, 0);
}

// A mean over an image's positions gates its channels (squeeze and excitation): few channels must not take the batch as
// lanes.
TEST(SliceBatches, GatesOfChannels) {
  Graph g;
  Var* wide = layer(g, input(g), 64);
  Var* gate = layer(g, layer(g, mean(g, wide, {1, 2}, true), 4), 64);
  g.outputs = {layer(g, map(g, Fn::mul, wide, gate), 8)};
  const Outcome outcome = expect_reference(g);
  EXPECT_GT(outcome.repeats, 0);
  EXPECT_LT(outcome.arena_bytes, images * rows * rows * 64 * 4) << "the wide value is whole";
}

// Windows of 4 x 4 positions become the first axis: image = floor(window / 36).
TEST(SliceBatches, WindowsOfImages) {
  Graph g;
  Var* parts = reshape(g, layer(g, input(g), 64), {images, 6, 4, 6, 4, 64});
  Var* windows = reshape(g, transpose(g, parts, {0, 1, 3, 2, 4, 5}), {images * 36, 16, 64});
  Var* centred = map(g, Fn::sub, windows, mean(g, windows, {1}, true));
  Var* merged = transpose(g, reshape(g, layer(g, centred, 64), {images, 6, 6, 4, 4, 64}), {0, 1, 3, 2, 4, 5});
  g.outputs = {layer(g, reshape(g, merged, {images, rows, rows, 64}), 8)};
  const Outcome outcome = expect_reference(g);
  EXPECT_GT(outcome.repeats, 0);
  EXPECT_LT(outcome.arena_bytes, images * rows * rows * 64 * 4) << "the wide value is whole";
}

// Images read one another: in reverse, shifted by one, by their number, and all at once.
TEST(SliceBatches, WhatMixesImagesStaysWhole) {
  using Mix = std::function<Var*(Graph&, Var*)>;
  const std::vector<Mix> mixes = {
      [](Graph& g, Var* x) {
        return g.reindex({x}, x->shape(), {Expr(images - 1) - axis(0), axis(1), axis(2), axis(3)});
      },
      [](Graph& g, Var* x) {
        return g.reindex({x}, x->shape(), {floor_mod(axis(0) + Expr(1), Expr(images)), axis(1), axis(2), axis(3)});
      },
      [](Graph& g, Var* x) { return map(g, Fn::add, x, fill(g, x->shape(), cast(axis(0), DType::f32))); },
      [](Graph& g, Var* x) { return map(g, Fn::sub, x, mean(g, x, {0}, true)); },
  };
  auto rows_of_the_wide = [](const Mix& mix) {
    Graph g;
    Var* wide = layer(g, input(g), 64);
    g.outputs = {layer(g, layer(g, mix(g, wide), 64), 8)};
    expect_reference(g);
    return wide->shape()[0].as_int();
  };
  EXPECT_LT(rows_of_the_wide([](Graph&, Var* x) { return x; }), images) << "nothing is cut where nothing mixes";
  for (const Mix& mix : mixes) EXPECT_EQ(rows_of_the_wide(mix), images) << "what is read across images was cut";
}

}  // namespace
}  // namespace metac::slice_batches_test
