// What follows a sum in a register tile: functions of many operations, on whole tiles, rests of points and last lanes.
#include <gtest/gtest.h>

#include <array>

#include "compiler/ir/builders.h"
#include "compiler/jit/jit_program.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/program/compile.h"
#include "tests/unit/ramp.h"

namespace metac::tile_epilogue_test {
namespace {

class TileEpilogue : public testing::TestWithParam<std::array<int64_t, 3>> {};

TEST_P(TileEpilogue, OfManyOperations) {
  const auto [rows, depth, columns] = GetParam();
  for (const char* cpu : {"native", "x86-64-v3", "x86-64"})
    for (Fn fn : {Fn::erf, Fn::sigmoid, Fn::tanh}) {
      Graph g;
      Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f32, {rows, depth}});
      Var* w = g.add_input("w", Type{TypeKind::tensor, DType::f32, {depth, columns}});
      Var* bias = g.add_input("bias", Type{TypeKind::tensor, DType::f32, {columns}});
      Var* sum = map(g, Fn::add, matmul(g, x, w), bias);
      g.outputs = {map(g, Fn::mul, sum, map(g, fn, sum))};
      const std::vector<Tensor> inputs = {ramp({rows, depth}, 5), ramp({depth, columns}, 3), ramp({columns}, 7)};
      const Tensor expected = evaluate(g, inputs)[0];
      CompileOptions options;
      options.cpu = cpu_target(cpu);
      const CompiledModel model = compile_graph(g, options);
      std::string text;
      for (const KernelSource& kernel : model.run.kernels) text += kernel.text;
      EXPECT_TRUE(columns < 64 || text.find("alignas(64) float") != std::string::npos) << "the epilogue is printed out\n"
                                                                                       << text;
      const Tensor found =
          JitProgram(std::make_shared<CompiledProgram>(model.run), run_prepare(model, options.cpu), options.cpu, 2)
              .run(inputs)[0];
      for (int64_t k = 0; k < expected.element_count(); ++k)
        ASSERT_NEAR(number_at(found, k), number_at(expected, k), 1e-5 * depth) << cpu << ", element " << k;
    }
}

// A normalised residual beside a scaled sum: few operations, many values.
TEST_P(TileEpilogue, OfManyValues) {
  const auto [rows, depth, columns] = GetParam();
  Graph g;
  const auto in = [&](const char* name, Shape shape) {
    return g.add_input(name, Type{TypeKind::tensor, DType::f32, std::move(shape)});
  };
  Var *x = in("x", {rows, depth}), *w = in("w", {depth, columns}), *bias = in("bias", {columns}),
      *residual = in("residual", {rows, columns});
  Var *mean = in("mean", {rows, 1}), *scale = in("scale", {rows, 1}), *gain = in("gain", {columns});
  Var* normal = map(g, Fn::mul, map(g, Fn::mul, map(g, Fn::sub, residual, mean), scale), gain);
  g.outputs = {map(g, Fn::add, map(g, Fn::add, matmul(g, x, w), bias), normal)};
  const std::vector<Tensor> inputs = {ramp({rows, depth}, 5),   ramp({depth, columns}, 3), ramp({columns}, 7),
                                      ramp({rows, columns}, 2), ramp({rows, 1}, 4),        ramp({rows, 1}, 6),
                                      ramp({columns}, 8)};
  const Tensor expected = evaluate(g, inputs)[0];
  CompileOptions options;
  options.cpu = cpu_target("native");
  const CompiledModel model = compile_graph(g, options);
  std::string text;
  for (const KernelSource& kernel : model.run.kernels) text += kernel.text;
  EXPECT_TRUE(columns < 64 || text.find("alignas(64) float") != std::string::npos) << "the epilogue is printed out\n"
                                                                                   << text;
  const Tensor found =
      JitProgram(std::make_shared<CompiledProgram>(model.run), run_prepare(model, options.cpu), options.cpu, 2)
          .run(inputs)[0];
  for (int64_t k = 0; k < expected.element_count(); ++k)
    ASSERT_NEAR(number_at(found, k), number_at(expected, k), 1e-5 * depth) << "element " << k;
}

INSTANTIATE_TEST_SUITE_P(Sizes, TileEpilogue,
                         testing::Values(std::array<int64_t, 3>{1, 16, 64}, std::array<int64_t, 3>{13, 16, 96},
                                         std::array<int64_t, 3>{7, 33, 75}, std::array<int64_t, 3>{50, 300, 70},
                                         std::array<int64_t, 3>{5, 8, 9}));

}  // namespace
}  // namespace metac::tile_epilogue_test
