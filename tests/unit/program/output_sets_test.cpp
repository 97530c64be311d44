// Runs that leave out what only unwanted outputs need: what is left is the same to the bit, and less is done.
#include <gtest/gtest.h>

#include <cstring>

#include "compiler/jit/jit_program.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/program/compile.h"
#include "tests/unit/random_graph.h"

namespace metac::output_sets_test {
namespace {

std::unique_ptr<JitProgram> program_of(Graph& g, int threads) {
  CompileOptions options;
  options.cpu = cpu_target("native");
  CompiledModel model = compile_graph(g, options);
  WeightsBlock weights = run_prepare(model, options.cpu);
  return std::make_unique<JitProgram>(std::make_shared<CompiledProgram>(std::move(model.run)), weights, options.cpu,
                                      threads);
}

// Answers into memory that is full of a mark, where an output that is left out keeps it.
constexpr unsigned char mark = 0xa5;
std::vector<std::vector<unsigned char>> run(JitProgram& program, const std::vector<Tensor>& inputs,
                                            const std::vector<Tensor>& like, unsigned wanted) {
  std::vector<std::vector<unsigned char>> bytes;
  std::vector<rt::OutputView> views;
  for (size_t k = 0; k < like.size(); ++k) {
    bytes.emplace_back(static_cast<size_t>(like[k].byte_count()), mark);
    const bool is_wanted = (wanted >> k & 1) != 0;
    views.push_back({is_wanted ? bytes[k].data() : nullptr, static_cast<int64_t>(like[k].byte_count()), !is_wanted});
  }
  program.run_into(inputs, views);
  return bytes;
}

int64_t steps_done(const JitProgram& program) {
  int64_t done = 0;
  for (const StepProfile& step : program.profile()) done += step.runs;
  return done;
}

TEST(OutputSets, AHeadThatIsNotWantedIsLeftOut) {
  Graph g;
  Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f32, {4, 4}});
  const auto step = [&](Var* of) {
    Var* made = map(g, Fn::exp, of);
    made->stop_fuse = true;
    return made;
  };
  Var* body = step(x);
  g.outputs = {step(step(body)), step(body)};
  const std::vector<Tensor> inputs = {make_tensor<float>(DType::f32, {4, 4}, std::vector<float>(16, .5f))};
  const std::vector<Tensor> expected = evaluate(g, inputs);
  const auto program = program_of(g, 1);
  ASSERT_FALSE(program->compiled().needs.empty());
  for (const auto& [wanted, steps] : {std::pair(3u, 4), {1u, 3}, {2u, 2}, {0u, 0}}) {
    program->start_profile();
    run(*program, inputs, expected, wanted);
    EXPECT_EQ(steps_done(*program), steps) << wanted;
    program->stop_profile();
  }
}

TEST(OutputSets, OneOutputHasNone) {
  Graph g;
  g.outputs = {map(g, Fn::exp, g.add_input("x", Type{TypeKind::tensor, DType::f32, {4}}))};
  EXPECT_TRUE(program_of(g, 1)->compiled().needs.empty());
}

TEST(OutputSets, RandomGraphs) {
  int left_out = 0;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    RandomGraph random(seed, {.ops = 18, .sums = seed % 2 == 0, .dims = {5, 6}});
    const std::vector<Tensor> inputs = random.inputs(), expected = evaluate(*random.graph, inputs);
    const auto program = program_of(*random.graph, 2);
    left_out += !program->compiled().needs.empty();
    const auto all = run(*program, inputs, expected, ~0u);
    const unsigned sets = 1u << std::min<size_t>(expected.size(), 5);
    for (unsigned wanted = 0; wanted < sets; ++wanted) {
      const auto some = run(*program, inputs, expected, wanted);
      for (size_t k = 0; k < all.size(); ++k) {
        const std::vector<unsigned char> untouched(all[k].size(), mark);
        EXPECT_EQ(some[k], (wanted >> k & 1) != 0 ? all[k] : untouched) << "seed " << seed << ", set " << wanted;
      }
    }
  }
  EXPECT_GT(left_out, 10);
}

}  // namespace
}  // namespace metac::output_sets_test
