// Compiled models as bytes: what comes back runs as before, and bytes that are none are refused.
#include "compiler/program/stored_program.h"

#include <gtest/gtest.h>

#include "compiler/ir/builders.h"
#include "compiler/jit/jit_program.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/program/compile.h"

namespace metac::stored_program_test {
namespace {

// y = relu(x w + b) with n rows, beside the elements of x that are not 0.
CompiledModel compiled() {
  Graph graph;
  Symbol n{"n"};
  n.min = 1;
  n.from_input = true;
  Var* x = graph.add_input("x", Type{TypeKind::tensor, DType::f32, {symbol(graph.add_symbol(n)), Dim(8)}});
  Var* w = graph.add_constant(filled_tensor(DType::f32, {8, 4}, 0.5), "w", true);
  Var* y = map(graph, Fn::max, matmul(graph, x, w), scalar(graph, DType::f32, 0));
  graph.outputs = {y};
  graph.output_names = {"y"};
  CompileOptions options;
  options.cpu = cpu_target("native");
  CompiledModel model = compile_graph(graph, options);
  model.drop_expressions();
  return model;
}

std::vector<float> run(const CompiledModel& model) {
  const CpuTarget cpu = cpu_target("native");
  const auto program = std::shared_ptr<const CompiledProgram>(&model.run, [](auto*) {});
  JitProgram jit(program, run_prepare(model, cpu), cpu, 1);
  const Tensor y = jit.run({filled_tensor(DType::f32, {3, 8}, 2)})[0];
  return {y.data<float>(), y.data<float>() + y.element_count()};
}

TEST(StoredProgram, RunsAsBefore) {
  const ExprScope scope;
  const CompiledModel model = compiled();
  const std::string bytes = stored_program(model);
  const std::optional<CompiledModel> read = read_stored_program(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(run(*read), run(model));
  EXPECT_EQ(run(*read), std::vector<float>(12, 8.0f));
  EXPECT_EQ(stored_program(*read), bytes);
}

TEST(StoredProgram, OtherBytesAreRefused) {
  const ExprScope scope;
  const std::string bytes = stored_program(compiled());
  for (size_t size = 0; size < bytes.size(); size += 1 + size / 64) EXPECT_FALSE(read_stored_program(bytes.substr(0, size)));
  EXPECT_FALSE(read_stored_program(bytes + '\0'));
  EXPECT_FALSE(read_stored_program(std::string(bytes.size(), '\xff')));
}

}  // namespace
}  // namespace metac::stored_program_test
