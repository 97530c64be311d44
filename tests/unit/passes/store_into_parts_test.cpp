// Values that are only concatenated are stored where they go; others are copied, and the answers are the same.
#include <gtest/gtest.h>

#include "compiler/ir/builders.h"
#include "compiler/jit/jit_program.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/program/compile.h"
#include "tests/unit/ramp.h"

namespace metac::store_into_parts_test {
namespace {

// Two products of the same data, concatenated along `axis`; returns the launches that it takes with vectors that divide the
// rows.
size_t launches_of(int axis, bool read_elsewhere, bool twice) {
  Graph g;
  auto input = [&](const char* name, Shape shape) {
    return g.add_input(name, Type{TypeKind::tensor, DType::f32, std::move(shape)});
  };
  Var *x = input("x", {40, 24}), *v = input("v", {24, 64}), *w = input("w", {24, 64});
  Var *a = matmul(g, x, v), *b = matmul(g, x, w);
  g.outputs = {concat(g, twice ? std::vector<Var*>{a, a} : std::vector<Var*>{a, b}, axis)};
  if (read_elsewhere) g.outputs.push_back(reduce(g, a, {0}, Reduce::max, false));
  std::vector<Tensor> inputs = {ramp({40, 24}, 3), ramp({24, 64}, 5), ramp({24, 64}, 7)}, expected = evaluate(g, inputs);
  CompileOptions options;
  options.cpu = cpu_target("x86-64-v4");
  size_t launches = 0;
  for (const rt::Step& step : compile_graph(g, options).run.steps) launches += step.kind == rt::StepKind::launch;
  options.cpu = cpu_target("native");
  CompiledModel model = compile_graph(g, options);
  WeightsBlock weights = run_prepare(model, options.cpu);
  for (int threads : {1, 2}) {
    std::vector<Tensor> found =
        JitProgram(std::make_shared<CompiledProgram>(model.run), weights, options.cpu, threads).run(inputs);
    for (size_t t = 0; t < expected.size(); ++t)
      for (int64_t k = 0; k < expected[t].element_count(); ++k)
        EXPECT_NEAR(number_at(found[t], k), number_at(expected[t], k), 1e-4) << "element " << k;
  }
  return launches;
}

TEST(StoreIntoParts, WhatIsOnlyConcatenatedIsStoredThere) {
  for (int axis : {0, 1}) {
    const size_t direct = launches_of(axis, false, false);
    EXPECT_EQ(direct, 2u);
    EXPECT_EQ(launches_of(axis, true, false), direct + 2) << "one copy, and the other reader";
    EXPECT_EQ(launches_of(axis, false, true), direct + 1) << "no second product, but two copies";
  }
}

}  // namespace
}  // namespace metac::store_into_parts_test
