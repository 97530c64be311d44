// Samples at places that are computed once for all channels.
#include <gtest/gtest.h>

#include "compiler/ir/builders.h"
#include "compiler/jit/jit_program.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/program/compile.h"
#include "tests/unit/ramp.h"

namespace metac::hoist_tables_test {
namespace {

constexpr int64_t images = 2, channels = 6, height = 9, width = 11;

// out[n, c, p] = data[n, c, floor(y[n, p]), floor(x[n, p])], 0 outside.
Var* samples(Graph& g, Var* data, Var* y, Var* x, int64_t points) {
  const auto place = [&](int operand) {
    return cast(call(Fn::floor, {load(operand, DType::f32, {axis(0), axis(2)})}), DType::i64);
  };
  const Expr row = place(1), column = place(2);
  return g.reindex({data, y, x}, {images, channels, points}, {axis(0), axis(1), row, column},
                   {Expr(0) <= row, row < Expr(height), Expr(0) <= column, column < Expr(width)});
}

// Runs on 1 and 2 threads and compares with the evaluator.
bool in_tables(Graph& g, const std::vector<Tensor>& inputs, const char* cpu) {
  const Tensor expected = evaluate(g, inputs)[0];
  CompileOptions options;
  options.cpu = cpu_target(cpu);
  const CompiledModel model = compile_graph(g, options);
  const WeightsBlock weights = run_prepare(model, options.cpu);
  for (int threads : {1, 2}) {
    const Tensor found =
        JitProgram(std::make_shared<CompiledProgram>(model.run), weights, options.cpu, threads).run(inputs)[0];
    EXPECT_EQ(found.shape, expected.shape);
    for (int64_t k = 0; k < found.element_count(); ++k)
      EXPECT_EQ(number_at(found, k), number_at(expected, k)) << "element " << k << " on " << threads << " threads";
  }
  for (const KernelSource& kernel : model.run.kernels)
    for (const std::string& step : kernel.schedule)
      if (step.find("tables for a block of points") != std::string::npos) return true;
  return false;
}

Var* input(Graph& g, const char* name, Shape shape) {
  return g.add_input(name, Type{TypeKind::tensor, DType::f32, std::move(shape)});
}

Tensor places(int64_t points, int step) {
  std::vector<float> values;
  for (int64_t k = 0; k < images * points; ++k)
    values.push_back(static_cast<float>(k * step % 23 - 11) / 2 + 4);  // some outside on either side
  return make_tensor<float>(DType::f32, {images, points}, values);
}

// Whole blocks, a rest, and fewer points than a block.
TEST(HoistTables, PlacesOfSamples) {
  for (const char* cpu : {"native", "x86-64"})
    for (const int64_t points : {4096, 1003, 130, 40}) {
      SCOPED_TRACE(testing::Message() << points << " points for " << cpu);
      Graph g;
      Var *data = input(g, "data", {images, channels, height, width}), *y = input(g, "y", {images, points}),
          *x = input(g, "x", {images, points});
      g.outputs = {samples(g, data, y, x, points)};
      EXPECT_TRUE(in_tables(g, {ramp({images, channels, height, width}, 7), places(points, 5), places(points, 3)}, cpu));
    }
}

// What only a condition makes sure of is not read for a table: the coordinates come from three points before.
TEST(HoistTables, WhatMayNotExistIsNotRead) {
  constexpr int64_t points = 300;
  Graph g;
  Var *data = input(g, "data", {images, channels, height, width}), *y = input(g, "y", {images, points}),
      *x = input(g, "x", {images, points});
  Var* shifted =
      g.reindex({y}, {images, points}, {axis(0), axis(1) - Expr(3)}, {Expr(3) <= axis(1)}, float_constant(-1, DType::f32));
  g.outputs = {samples(g, data, shifted, x, points)};
  in_tables(g, {ramp({images, channels, height, width}, 7), places(points, 5), places(points, 3)}, "native");
}

// Few operations are done again rather than kept.
TEST(HoistTables, PlainGathersAreLeftAlone) {
  Graph g;
  Var *data = input(g, "data", {images, channels, 50}), *at = g.add_input("at", Type{TypeKind::tensor, DType::i64, {700}});
  g.outputs = {g.reindex({data, at}, {images, channels, 700}, {axis(0), axis(1), load(1, DType::i64, {axis(2)})})};
  std::vector<int64_t> indices;
  for (int64_t k = 0; k < 700; ++k) indices.push_back(k * 7 % 50);
  EXPECT_FALSE(in_tables(g, {ramp({images, channels, 50}, 7), make_tensor<int64_t>(DType::i64, {700}, indices)}, "native"));
}

}  // namespace
}  // namespace metac::hoist_tables_test
