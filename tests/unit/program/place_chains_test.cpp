// Launches side by side: what needs nothing of each other is done so where it pays, and answers stay.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "compiler/ir/builders.h"
#include "compiler/jit/jit_program.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/program/compile.h"
#include "compiler/program/program_work.h"
#include "tests/unit/ramp.h"
#include "tests/unit/same_bytes.h"

namespace metac::place_chains_test {
namespace {

// Every launch alone, workers for nothing: whatever may run side by side does.
constexpr ChainCosts free_workers = {int64_t{1} << 60, 1, 0, 0, 1, 4};

Var* input(Graph& g, const std::string& name, int64_t rows, int64_t channels) {
  return g.add_input(name, Type{TypeKind::tensor, DType::f32, {rows, channels}});
}
// A product, which is a kernel of its own.
Var* layer(Graph& g, Var* x, int64_t to, int seed) {
  Var* weights = g.add_constant(ramp({x->shape().back().as_int(), to}, seed), "", true);
  return map(g, Fn::tanh, matmul(g, x, weights));
}

int64_t chains_of(const CompiledModel& model) {
  return std::count_if(model.run.steps.begin(), model.run.steps.end(),
                       [](const rt::Step& s) { return s.kind == rt::StepKind::beside; });
}

// The same bits with any number of workers, profiled or not, and those of the graph.
int64_t expect_reference(Graph& g, const std::vector<Tensor>& inputs, CompileOptions options) {
  options.cpu = cpu_target("native");
  const std::vector<Tensor> expected = evaluate(g, inputs);
  const CompiledModel model = compile_graph(g, options);
  const WeightsBlock block = run_prepare(model, options.cpu);
  std::vector<Tensor> by_one;
  for (int threads : {1, 2, 3}) {
    for (bool profiled : {false, true}) {
      JitProgram program(std::make_shared<CompiledProgram>(model.run), block, options.cpu, threads);
      if (profiled) program.start_profile();
      for (int again = 0; again < 3; ++again) {
        const std::vector<Tensor> found = program.run(inputs);
        if (by_one.empty()) by_one = found;
        for (size_t t = 0; t < found.size(); ++t)
          EXPECT_TRUE(same_bytes(found[t], by_one[t])) << threads << " threads, output " << t;
      }
      if (!profiled) continue;
      const std::vector<StepProfile> steps = program.profile();
      EXPECT_EQ(steps.size(), model.run.steps.size());
      for (size_t k = 0; k < steps.size(); ++k)
        EXPECT_EQ(steps[k].runs, model.run.steps[k].kind == rt::StepKind::launch ? 3 : 0) << "step " << k;
    }
  }
  for (size_t t = 0; t < by_one.size(); ++t)
    for (int64_t k = 0; k < by_one[t].element_count(); ++k)
      EXPECT_NEAR(number_at(by_one[t], k), number_at(expected[t], k), 1e-3)  // six layers of sums of large products
          << "output " << t << ", element " << k;
  return chains_of(model);
}

TEST(PlaceChains, TwoNetworksAreTwoChains) {
  Graph g;
  Var *x = input(g, "x", 32, 64), *z = input(g, "z", 32, 64);
  for (int k = 0; k < 6; ++k) x = layer(g, x, 64, k), z = layer(g, z, 64, 10 + k);
  g.outputs = {x, z};
  EXPECT_EQ(expect_reference(g, {ramp({32, 64}, 5), ramp({32, 64}, 3)}, {}), 2);
}

TEST(PlaceChains, OneChainIsLeftAlone) {
  Graph g;
  Var* x = input(g, "x", 32, 64);
  for (int k = 0; k < 6; ++k) x = layer(g, x, 64, k);
  g.outputs = {x};
  CompileOptions options;
  options.chains = free_workers;
  EXPECT_EQ(expect_reference(g, {ramp({32, 64}, 5)}, options), 0);
}

TEST(PlaceChains, LaunchesOfAllWorkersAreLeftInTurn) {
  Graph g;
  Var *x = input(g, "x", 512, 256), *z = input(g, "z", 512, 256);
  for (int k = 0; k < 3; ++k) x = layer(g, x, 256, k), z = layer(g, z, 256, 10 + k);
  g.outputs = {x, z};
  CompileOptions options;
  options.cpu = cpu_target("native");
  EXPECT_EQ(chains_of(compile_graph(g, options)), 0);
}

// Layers that read what is there, join it, and end here and there: memory is shared among chains in every way there is.
TEST(PlaceChains, AnyGraphKeepsItsAnswers) {
  int64_t chains = 0;
  for (unsigned seed = 0; seed < 12; ++seed) {
    std::mt19937 random(seed);
    Graph g;
    std::vector<Var*> there = {input(g, "x", 8, 16), input(g, "z", 8, 16)};
    for (int k = 0; k < 24; ++k) {
      Var* a = there[random() % there.size()];
      Var* made = layer(g, a, 16, static_cast<int>(random() % 16));
      if (random() % 3 == 0) made = map(g, Fn::add, made, layer(g, there[random() % there.size()], 16, k));
      there.push_back(made);
      if (there.size() > 5) there.erase(there.begin() + static_cast<long>(random() % there.size()));
    }
    g.outputs = {there.end() - 3, there.end()};
    CompileOptions options;
    options.chains = free_workers;
    chains += expect_reference(g, {ramp({8, 16}, 5), ramp({8, 16}, 3)}, options);
  }
  EXPECT_GT(chains, 24);
}

}  // namespace
}  // namespace metac::place_chains_test
