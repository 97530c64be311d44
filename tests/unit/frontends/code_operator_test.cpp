// The operator code: the user's C++ compiled as a kernel, its derivatives, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/autodiff/gradient.h"
#include "compiler/jit/jit_program.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/ops/lower_model.h"
#include "compiler/program/compile.h"
#include "compiler/support/diagnostic.h"
#include "frontends/json/json.h"

namespace metac::code_operator_test {
namespace {

// b = 2 a^2 over [n, 3], as in the paper's example of the code operator; c = sum of b's rows, backwards.
std::string document(const std::string& cpu, const std::string& more) {
  return R"({"metac_ir": 1, "inputs": [{"name": "a", "dtype": "float64", "shape": ["n", 3]}], "nodes": [
    {"op": "code", "inputs": ["a"], "outputs": ["b"], "shape": "a.shape", "cpu": ")" +
         cpu + "\"" + more + R"(}], "outputs": ["b"]})";
}

std::string loop(const std::string& value) {
  return "for (int64_t i = 0; i < in0_shape0; ++i) for (int64_t j = 0; j < in0_shape1; ++j) @out(i, j) = " + value + ";";
}
std::string square() {
  return document(loop("@in0(i, j) * @in0(i, j) * 2"), ", \"grad\": \"" + loop("@dout(i, j) * @in0(i, j) * 4") +
                                                           "\", \"tangent\": \"" +
                                                           loop("2 * @pout(i, j) / @in0(i, j) * @tin0(i, j)") + "\"");
}

std::unique_ptr<Graph> lowered(const std::string& text, bool allow = true) {
  LowerOptions options;
  options.allow_code = allow;
  return lower_model(read_json_model(text, "code.json"), options);
}

std::vector<Tensor> run(Graph& graph, const std::vector<Tensor>& inputs) {
  CompileOptions options;
  options.cpu = cpu_target("native");
  CompiledModel model = compile_graph(graph, options);
  WeightsBlock weights = run_prepare(model, options.cpu);
  return JitProgram(std::make_shared<CompiledProgram>(std::move(model.run)), weights, options.cpu, 1).run(inputs);
}

std::string refusal(const std::string& text, bool allow = true) {
  try {
    auto graph = lowered(text, allow);
    run(*graph, {make_tensor<double>(DType::f64, {1, 3}, {1, 2, 3})});
  } catch (const CompileError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(CodeOperator, ComputesAndHasDerivativesBothWays) {
  auto graph = lowered(square());
  Var *a = graph->inputs[0], *b = graph->outputs[0];
  Var* given = graph->add_input("given", a->type);
  graph->outputs = {b, gradient(*graph, {b}, {given}, {a})[0], jvp(*graph, {b}, {a}, {given})[0]};
  graph->output_names = {"b", "gradient", "tangent"};
  const std::vector<double> x = {1, -2, 3, 0.5, 4, -1}, v = {1, 10, 100, -1, 0, 2};
  std::vector<Tensor> results =
      run(*graph, {make_tensor<double>(DType::f64, {2, 3}, x), make_tensor<double>(DType::f64, {2, 3}, v)});
  for (int64_t k = 0; k < 6; ++k) {
    const double at = x[static_cast<size_t>(k)], along = v[static_cast<size_t>(k)];
    EXPECT_EQ(number_at(results[0], k), 2 * at * at);
    EXPECT_EQ(number_at(results[1], k), 4 * at * along);
    EXPECT_EQ(number_at(results[2], k), 4 * at * along);
  }
}

TEST(CodeOperator, HasTheDerivativesThatAreWritten) {
  auto graph = lowered(document(loop("@in0(i, j)"), ""));
  Var *a = graph->inputs[0], *b = graph->outputs[0];
  EXPECT_THROW(gradient(*graph, {b}, {a}, {a}), CompileError);
  EXPECT_THROW(jvp(*graph, {b}, {a}, {a}), CompileError);
  // "" says that there is none: zero. A second derivative there never is.
  graph = lowered(document(loop("@in0(i, j)"), ", \"grad\": [\"\"]"));
  Var* none = gradient(*graph, {graph->outputs[0]}, {graph->inputs[0]}, {graph->inputs[0]})[0];
  EXPECT_EQ(none->producer->inputs.size(), 0u);
  graph = lowered(square());
  Var* first = gradient(*graph, {graph->outputs[0]}, {graph->inputs[0]}, {graph->inputs[0]})[0];
  EXPECT_THROW(gradient(*graph, {first}, {graph->inputs[0]}, {graph->inputs[0]}), CompileError);
}

TEST(CodeOperator, NestedElementsAndOtherBrackets) {
  auto graph =
      lowered(document("int64_t p[2] = {0, 1}; for (int64_t k = 0; k < 3; ++k) @out(0, k) = @in0(p[(0)], (int64_t)@in0(0, "
                       "k) - p[1]) + in0_shape1;",
                       ""));
  std::vector<Tensor> results = run(*graph, {make_tensor<double>(DType::f64, {1, 3}, {3, 1, 2})});
  EXPECT_EQ(number_at(results[0], 0), 5);
  EXPECT_EQ(number_at(results[0], 1), 6);
  EXPECT_EQ(number_at(results[0], 2), 4);
}

TEST(CodeOperator, IsCompiledOnlyWhereAllowedAndFromJson) {
  EXPECT_THAT(refusal(square(), false), testing::HasSubstr("--allow-code"));
  Model model = read_json_model(square(), "code.json");
  model.graph.nodes[0].line = 0;  // as from an ONNX file
  LowerOptions options;
  options.allow_code = true;
  EXPECT_THROW(lower_model(model, options), CompileError);
}

TEST(CodeOperator, MistakesAreTheUsersAndSayWhere) {
  EXPECT_EQ(refusal(square()), "accepted");
  EXPECT_THAT(refusal(document(loop("@in1(i, j)"), "")),
              testing::HasSubstr("\"cpu\", character 96: @in1 is not known; there are @in0, @out"));
  EXPECT_THAT(refusal(document(loop("@in0(i)"), "")), testing::HasSubstr("@in0 has rank 2, it is given 1 indices"));
  EXPECT_THAT(refusal(document(loop("@in0"), "")), testing::HasSubstr("@in0 wants its indices"));
  EXPECT_THAT(refusal(document("@out(0, 1", "")), testing::HasSubstr("the parenthesis of @out( is not closed"));
  EXPECT_THAT(refusal(document(loop("nonsense"), "")), testing::HasSubstr("does not compile"));
  EXPECT_THAT(refusal(document(loop("1"), ", \"grad\": [\"\", \"\"]")),
              testing::HasSubstr("\"grad\" has 2 entries for 1 inputs"));
  std::string deep;
  for (int k = 0; k < 100000; ++k) deep += "@in0(";
  EXPECT_THAT(refusal(document(deep, "")), testing::HasSubstr("nest deeper than 100"));
}

}  // namespace
}  // namespace metac::code_operator_test
