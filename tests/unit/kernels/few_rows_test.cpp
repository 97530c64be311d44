// Decoders that take one token at a time: products and attention whose number of rows is known to a run alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/ir/builders.h"
#include "compiler/jit/jit_program.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/ops/sums/softmax.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/program/compile.h"
#include "compiler/region/split_residues.h"
#include "compiler/support/diagnostic.h"
#include "tests/unit/ramp.h"
#include "tests/unit/schedules_of.h"

namespace metac::few_rows_test {
namespace {

void expect_near(const Tensor& found, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(found.shape, expected.shape) << what;
  for (int64_t k = 0; k < expected.element_count(); ++k)
    ASSERT_NEAR(number_at(found, k), number_at(expected, k), 1e-4) << what << ", element " << k;
}

// [rows, 96] times [96, 4 * 32], stored head by head as [4, rows, 32].
struct Projection {
  Graph g;
  explicit Projection(std::optional<int64_t> rows) {
    const Expr n = rows ? Expr(*rows) : symbol(g.add_symbol({.name = "n", .min = 1, .hint = 128, .from_input = true}));
    Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f32, {n, 96}});
    g.outputs = {transpose(g, reshape(g, matmul(g, x, g.add_constant(ramp({96, 128}, 7))), {n, 4, 32}), {1, 0, 2})};
  }
};

// Vectors run along the columns of a head, whose weights are packed ahead: nothing is packed while a model runs.
TEST(FewRows, ColumnsStoredHeadByHeadHaveTheLanes) {
  for (const std::optional<int64_t> rows : {std::optional<int64_t>(), std::optional<int64_t>(1)}) {
    Projection projection(rows);
    CompileOptions options;
    options.cpu = cpu_target("x86-64-v3");
    const CompiledModel model = compile_graph(projection.g, options);
    EXPECT_EQ(model.run.kernels.size(), 1u);
    EXPECT_THAT(schedules_of(model), testing::HasSubstr("lanes in registers")) << rows.value_or(0);
  }
}

TEST(FewRows, ProjectionsStoredHeadByHeadAreRight) {
  Projection network({}), reference({});
  CompileOptions options;
  options.cpu = cpu_target("native");
  CompiledModel model = compile_graph(network.g, options);
  const WeightsBlock weights = run_prepare(model, options.cpu);
  JitProgram program(std::make_shared<CompiledProgram>(std::move(model.run)), weights, options.cpu, 2);
  for (int64_t rows : {1, 2, 7, 33}) {
    const std::vector<Tensor> inputs = {ramp({rows, 96}, 5)};
    expect_near(program.run(inputs)[0], evaluate(reference.g, inputs)[0], concat(rows, " rows"));
  }
}

// A batch of texts, [b, n, 96] to [b, 4, n, 32]: tiles run along the steps of a text, or along the texts where there are
// more of these.
TEST(FewRows, TilesRunAlongTheTextsOfABatch) {
  const auto projection = [](Graph& g) {
    const auto open = [&](const char* name, int64_t hint) {
      return symbol(g.add_symbol({.name = name, .min = 1, .hint = hint, .from_input = true}));
    };
    const Expr b = open("b", 1), n = open("n", 128);
    Var* const x = g.add_input("x", Type{TypeKind::tensor, DType::f32, {b, n, 96}});
    Var* const columns = matmul(g, x, g.add_constant(ramp({96, 128}, 7)));
    g.outputs = {transpose(g, reshape(g, columns, {b, n, 4, 32}), {0, 2, 1, 3})};
  };
  Graph network, reference;
  projection(network), projection(reference);
  CompileOptions options;
  options.cpu = cpu_target("native");
  CompiledModel model = compile_graph(network, options);
  EXPECT_THAT(schedules_of(model), testing::HasSubstr("points along the other axis"));
  const WeightsBlock weights = run_prepare(model, options.cpu);
  JitProgram program(std::make_shared<CompiledProgram>(std::move(model.run)), weights, options.cpu, 2);
  for (const auto& [texts, steps] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {7, 1}, {33, 1}, {16, 2}, {5, 7}, {2, 33}, {1, 20}}) {
    const std::vector<Tensor> inputs = {ramp({texts, steps, 96}, 5)};
    expect_near(program.run(inputs)[0], evaluate(reference, inputs)[0], concat(texts, " texts, ", steps, " steps"));
  }
}

// Axes are taken apart by the least of several divisors, where vectors fit and one factor alone reads them.
TEST(FewRows, StoredDigitsAreTakenApart) {
  const auto domain_of = [](const std::vector<Expr>& index, const Shape& stored, bool both, int64_t least) {
    Graph g;
    Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f32, {8, 96, 16}});
    Var* w = g.add_input("w", Type{TypeKind::tensor, DType::f32, {16, 96}});
    Definition d;
    d.out = g.add_input("out", Type{TypeKind::tensor, DType::f32, stored});
    d.domain = {8, 96, 16};
    d.reduced = 1;
    d.reduce = Reduce::add;
    d.body =
        load(x->id, DType::f32, {axis(0), both ? axis(1) : Expr(0), axis(2)}) * load(w->id, DType::f32, {axis(2), axis(1)});
    d.epilogue = load(reduced_value, DType::f32, {});
    d.out_index = index;
    split_stored_digits(d, least, g.symbols);
    return to_string(d.domain);
  };
  const auto digit = [](int64_t by) { return floor_mod(axis(1), by); };
  const auto rest = [](int64_t by) { return floor_div(axis(1), by); };
  EXPECT_EQ(domain_of({rest(32), axis(0), digit(32)}, {3, 8, 32}, false, 8), to_string(Shape{8, 3, 32, 16}));
  EXPECT_EQ(domain_of({rest(48), axis(0), floor_mod(rest(16), 3), digit(16)}, {2, 8, 3, 16}, false, 8),
            to_string(Shape{8, 6, 16, 16}));
  EXPECT_EQ(domain_of({rest(32), axis(0), digit(32)}, {3, 8, 32}, false, 64), to_string(Shape{8, 96, 16}));
  EXPECT_EQ(domain_of({rest(32), axis(0), digit(32)}, {3, 8, 32}, true, 8), to_string(Shape{8, 96, 16}));
  EXPECT_EQ(domain_of({axis(0), axis(1)}, {8, 96}, false, 8), to_string(Shape{8, 96, 16}));
}

// softmax(q k) v of 3 heads: `rows` queries against a cache of `past` columns and as many as there are rows.
struct Attention {
  Graph g;
  explicit Attention(int64_t depth) {
    const Expr n = symbol(g.add_symbol({.name = "n", .min = 1, .hint = 128, .from_input = true}));
    const Expr past = symbol(g.add_symbol({.name = "past", .min = 0, .hint = 128, .from_input = true}));
    const auto input = [&](const char* name, Shape shape) {
      return g.add_input(name, Type{TypeKind::tensor, DType::f32, std::move(shape)});
    };
    Var* q = input("q", {3, n, depth});
    Var* k = concat(g, {input("past_k", {3, past, depth}), input("k", {3, n, depth})}, 1);
    Var* v = concat(g, {input("past_v", {3, past, depth}), input("v", {3, n, depth})}, 1);
    g.outputs = {matmul(g, softmax(g, matmul(g, q, transpose(g, k, {0, 2, 1})), {2}), v)};
  }
};

// One row does not pay for a block of rows, and no run is wrong on either side of what counts as few, or without a cache.
// The weighted sum goes through the values once, with as many vectors side by side as divide a head.
TEST(FewRows, AttentionIsRightForEveryNumberOfRows) {
  for (const auto& [cpu, depth] :
       std::vector<std::pair<const char*, int64_t>>{{"native", 32}, {"x86-64-v3", 32}, {"x86-64-v3", 96}, {"x86-64", 32}}) {
    Attention network(depth), reference(depth);
    CompileOptions options;
    options.cpu = cpu_target(cpu);
    CompiledModel model = compile_graph(network.g, options);
    ASSERT_THAT(schedules_of(model), testing::HasSubstr("up to 8 rows one by one")) << cpu;
    const char* together = depth == 96                    ? "6 vectors of sums"
                           : cpu == std::string("x86-64") ? "8 vectors of sums"
                                                          : "vectors of sums";
    EXPECT_THAT(schedules_of(model), testing::HasSubstr(together)) << cpu;
    const WeightsBlock weights = run_prepare(model, options.cpu);
    JitProgram program(std::make_shared<CompiledProgram>(std::move(model.run)), weights, options.cpu, 2);
    for (int64_t rows : {1, 2, 8, 9, 33})
      for (int64_t past : {0, 1, 40, 700}) {
        const std::vector<Tensor> inputs = {ramp({3, rows, depth}, 5), ramp({3, past, depth}, 3), ramp({3, rows, depth}, 9),
                                            ramp({3, past, depth}, 11), ramp({3, rows, depth}, 13)};
        expect_near(program.run(inputs)[0], evaluate(reference.g, inputs)[0],
                    concat(rows, " rows, ", past, " before them, ", cpu, ", depth ", depth));
      }
  }
}

// What is estimated for a row follows the cache that a run has, so that threads share a long one.
TEST(FewRows, CostOfARowFollowsTheCache) {
  Attention network(32);
  CompileOptions options;
  options.cpu = cpu_target("x86-64-v3");
  const CompiledModel model = compile_graph(network.g, options);
  rt::Program program{};
  program.code = model.run.code.data();
  std::vector<double> growth;  // of launches whose cost is worked out: from 4,000 columns to 32,000
  for (const rt::Step& s : model.run.steps) {
    if (s.kind != rt::StepKind::launch || s.carried == 0) continue;
    const auto cost = [&](int64_t past) {
      std::vector<int64_t> symbols(model.run.symbols.size(), 1);
      symbols[1] = past;
      int64_t value = 0;
      EXPECT_TRUE(rt::evaluate(program, model.run.extents.at(static_cast<size_t>(s.carried) - 1), symbols.data(), &value));
      return static_cast<double>(value);
    };
    growth.push_back(cost(32000) / cost(4000));
  }
  EXPECT_THAT(growth, testing::Contains(testing::DoubleNear(8, 0.5)));
}

}  // namespace
}  // namespace metac::few_rows_test
