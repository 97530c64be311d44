// Operators that users define: formulas and functions of C++ become the same expressions, and gradients that are given are
// taken in both modes. tests/defined tries what they compute, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/autodiff/gradient.h"
#include "compiler/ir/builders.h"
#include "compiler/ir/expr_table.h"
#include "compiler/ops/defined/formula.h"
#include "compiler/ops/defined/operator_definition.h"
#include "compiler/ops/lower_model.h"
#include "compiler/oracle/evaluate_graph.h"
#include "frontends/cpp/cpp_operators.h"
#include "frontends/cpp/formula_text.h"
#include "frontends/json/json.h"
#include "frontends/onnx/onnx.h"

namespace metac::defined_operators_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string& document() {
  static const std::string text = R"({"metac_ir": 1,
    "inputs": [{"name": "x", "dtype": "float64", "shape": [2]}],
    "nodes": [{"op": "f", "domain": "user", "inputs": ["x"], "outputs": ["y"]}], "outputs": ["y"]})";
  return text;
}

std::unique_ptr<Graph> with(const std::vector<ModelFunction>& functions, bool allow_code = false) {
  Model model = read_json_model(document(), "f.json");
  add_called(model, functions);
  LowerOptions options;
  options.allow_code = allow_code;
  return lower_model(model, options);
}

std::vector<double> values(const Graph& graph, size_t output, std::vector<double> x) {
  const Tensor answer = evaluate(graph, {make_tensor<double>(DType::f64, {2}, std::move(x))})[output];
  const double* elements = answer.data<double>();
  return {elements, elements + answer.element_count()};
}

TEST(DefinedOperators, NoOperandHasTheNameOfTheResultInGradients) {
  const Model model = read_json_model(R"({"metac_ir": 1,
    "inputs": [{"name": "x", "dtype": "float64", "shape": [2]}],
    "nodes": [{"op": "expression", "domain": "metac", "inputs": ["x", "x"], "outputs": ["z"], "body": ["x * y"],
               "parameters": ["x", "y"], "gradient": ["dy * y", "dy * x"]}], "outputs": ["z"]})", "f.json");
  try {
    lower_model(model, {});
    ADD_FAILURE() << "y is an operand and the result";
  } catch (const CompileError& error) {
    EXPECT_THAT(error.what(), HasSubstr("operand y: in gradients, which are given, y is the result"));
  }
}

TEST(DefinedOperators, FormulaTextIsReadBackToTheSameExpression) {
  const ExprScope scope;
  const Expr x = load(0, DType::f32, {}), n = load(1, DType::i32, {}), big = load(2, DType::u64, {});
  const Expr shared = call(Fn::exp, {x});
  Expr deep = x;
  for (int k = 0; k < 300; ++k) deep = call(Fn::tanh, {deep});
  for (const Expr e : {shared * shared + float_constant(-0.1, DType::f32), deep,
                       select(n < int_constant(-3, DType::i32), cast(n, DType::f32), float_constant(INFINITY, DType::f32)),
                       call(Fn::bit_and, {big, int_constant(-1, DType::u64)}), cast(x, DType::boolean),
                       float_constant(1e-40, DType::f64) * cast(x, DType::f64), call(Fn::is_nan, {x})}) {
    const std::string text = formula_text(e, {"x", "n", "big"}, {false, false, false});
    EXPECT_EQ(Formula(text).value({{"x", {x}}, {"n", {n}}, {"big", {big}}}, DType::f32), e) << text;
  }
}

TEST(DefinedOperators, FunctionsAndFormulasAreTheSame) {
  const std::vector<ModelFunction> written = read_cpp_operators(R"(#include <cmath>
    template <class T> T f(T x, T alpha = T(2)) { if (x > 0) return alpha * x; T s = std::exp(x); s -= 1; return s; })",
                                                                "f.cpp");
  ASSERT_EQ(written.size(), 1u);
  EXPECT_EQ(written[0].domain, "user");
  EXPECT_EQ(written[0].attribute_defaults.at("alpha").real, 2);
  const ModelFunction formula = function_of_definition({"f(x, alpha = 2)", "x > 0 ? alpha * x : exp(x) - 1", {}, true});
  for (const ModelFunction& function : {written[0], formula})
    EXPECT_THAT(values(*with({function}), 0, {3, -1}), ElementsAre(6, std::exp(-1.0) - 1));
}

TEST(DefinedOperators, AGivenGradientIsTakenInBothModesAndHasDerivatives) {
  const std::vector<ModelFunction> written = read_cpp_operators(R"(#include <cmath>
    double f(double x) { return std::rint(x); }
    double f_gradient_x(double x, double y, double dy) { return dy * x * y; })",
                                                                "f.cpp");
  for (const ModelFunction& f : {written[0], function_of_definition({"f(x)", "rint(x)", {{"x", "dy * x * y"}}, true})}) {
    auto graph = with({f});
    Var *x = graph->inputs[0], *y = graph->outputs[0];
    Var* one = fill(*graph, x->shape(), float_constant(1, DType::f64));
    Var* first = gradient(*graph, {y}, {one}, {x})[0];
    // d(x y)/dx with the y of the definition, whose derivative is x y again.
    graph->outputs = {first, jvp(*graph, {y}, {x}, {one})[0], gradient(*graph, {first}, {one}, {x})[0]};
    EXPECT_THAT(values(*graph, 0, {2.25, -3}), ElementsAre(4.5, 9));
    EXPECT_THAT(values(*graph, 1, {2.25, -3}), ElementsAre(4.5, 9));
    EXPECT_THAT(values(*graph, 2, {2.25, -3}), ElementsAre(2 + 2.25 * 4.5, -3 - 3 * 9));
  }
}

// y is the result in gradients of definitions; in C++ the operands have what names they like.
TEST(DefinedOperators, AnOperandOfCppMayBeCalledAsTheResultIs) {
  const std::vector<ModelFunction> written = read_cpp_operators(
      "double f(double x, double y, double dy) { return x * y + dy; }\n"
      "double f_gradient_x(double x, double y, double dy, double result, double adjoint) { return adjoint * y; }\n"
      "double f_gradient_y(double x, double y, double dy, double result, double adjoint) {\n"
      "  return adjoint * (result - dy) / y;\n}\n",
      "f.cpp");
  Model model = read_json_model(R"({"metac_ir": 1,
    "inputs": [{"name": "a", "dtype": "float64", "shape": [2]}, {"name": "b", "dtype": "float64", "shape": [2]}],
    "nodes": [{"op": "f", "domain": "user", "inputs": ["a", "b", "a"], "outputs": ["c"]}], "outputs": ["c"]})", "f.json");
  add_called(model, written);
  const auto graph = lower_model(model, {});
  Var* one = fill(*graph, graph->inputs[0]->shape(), float_constant(1, DType::f64));
  graph->outputs = gradient(*graph, graph->outputs, {one}, graph->inputs);
  const std::vector<Tensor> operands = {make_tensor<double>(DType::f64, {2}, {3, -2}),
                                        make_tensor<double>(DType::f64, {2}, {5, 4})};
  const std::vector<Tensor> found = evaluate(*graph, operands);
  const auto elements = [&](size_t k) { return std::vector<double>(found[k].data<double>(), found[k].data<double>() + 2); };
  EXPECT_THAT(elements(0), ElementsAre(6, 5));   // y + 1
  EXPECT_THAT(elements(1), ElementsAre(3, -2));  // x
  const std::string attribute =
      "double g(double x, double y = 2) { return x * y; }\n"
      "double g_gradient_x(double x, double y, double result, double adjoint) { return adjoint * y; }";
  EXPECT_THAT([&] { read_cpp_operators(attribute, "g.cpp"); },
              ::testing::ThrowsMessage<CompileError>(HasSubstr("attribute \"y\"")));
}

TEST(DefinedOperators, WhatIsWrittenToAFileIsReadBack) {
  Model model = read_json_model(document(), "f.json");
  add_called(model, {function_of_definition({"f(x, c = 3)", "x * c", {{"x", "dy * c"}}, true})});
  for (const Model& again :
       {read_json_model(to_json_text(model), "again.json"), read_onnx(to_onnx_bytes(model), "again.onnx")})
    EXPECT_THAT(values(*lower_model(again, {}), 0, {1, 2}), ElementsAre(3, 6));
}

// Bodies of statements are code: allowed by the user alone, and from no ONNX file.
TEST(DefinedOperators, FunctionsOverTensorsAreCode) {
  const std::vector<ModelFunction> written = read_cpp_operators(
      "#include <cstdint>\nvoid f(const double* x, const int64_t* x_shape, double* y) {\n"
      "  for (int64_t i = 0; i < x_shape[0]; ++i) y[i] = x[i];  // as it is: @\n}",
      "f.cpp");
  EXPECT_THAT(written[0].nodes[0].attributes.at("cpu").string, HasSubstr("x_shape[] = {@shape(in0)}"));
  EXPECT_NE(with(written, true), nullptr);
  const auto refusal = [&](const Model& model, bool allow) -> std::string {
    LowerOptions options;
    options.allow_code = allow;
    try {
      lower_model(model, options);
    } catch (const CompileError& error) {
      return error.what();
    }
    return "accepted";
  };
  Model model = read_json_model(document(), "f.json");
  add_called(model, written);
  EXPECT_THAT(refusal(model, false), HasSubstr("--allow-code allows it"));
  EXPECT_THAT(refusal(read_onnx(to_onnx_bytes(model), "f.onnx"), true), HasSubstr("C++ is taken from JSON documents only"));
}

}  // namespace
}  // namespace metac::defined_operators_test
