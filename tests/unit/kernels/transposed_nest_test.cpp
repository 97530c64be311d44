// Transposes and rows along the lanes: every size of a side, known and open, with other operands beside the transposed one.
#include <gtest/gtest.h>

#include <array>

#include "compiler/ir/builders.h"
#include "compiler/jit/jit_program.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/program/compile.h"
#include "tests/unit/ramp.h"

namespace metac::transposed_nest_test {
namespace {

Var* input(Graph& g, const char* name, Shape shape) {
  return g.add_input(name, Type{TypeKind::tensor, DType::f32, std::move(shape)});
}

// Runs a graph at each of the inputs on 1 and 2 threads; returns the schedule lines of all kernels.
std::string expect_reference(Graph& g, const std::vector<std::vector<Tensor>>& inputs, const std::string& cpu,
                             float tolerance) {
  std::vector<std::vector<Tensor>> expected;
  for (const std::vector<Tensor>& one : inputs) expected.push_back(evaluate(g, one));
  CompileOptions options;
  options.cpu = cpu_target(cpu);
  CompiledModel model = compile_graph(g, options);
  std::string schedule;
  for (const KernelSource& kernel : model.run.kernels)
    for (const std::string& line : kernel.schedule) schedule += line + "\n";
  WeightsBlock weights = run_prepare(model, options.cpu);
  for (int threads : {1, 2}) {
    JitProgram program(std::make_shared<CompiledProgram>(model.run), weights, options.cpu, threads);
    for (size_t n = 0; n < inputs.size(); ++n) {
      std::vector<Tensor> found = program.run(inputs[n]);
      for (size_t t = 0; t < found.size(); ++t) {
        EXPECT_EQ(found[t].shape, expected[n][t].shape);
        for (int64_t k = 0; k < found[t].element_count(); ++k)
          EXPECT_NEAR(number_at(found[t], k), number_at(expected[n][t], k), tolerance)
              << cpu << ", inputs " << n << ", element " << k;
      }
    }
  }
  return schedule;
}

const char* const cpus[] = {"native", "x86-64-v3", "x86-64"};

// y[n, b, a] = 2 x[n, a, b] + z[n, b, a]
Var* transposed_sum(Graph& g, Expr n, Expr a, Expr b) {
  Var *x = input(g, "x", {n, a, b}), *z = input(g, "z", {n, b, a});
  Var* turned = g.reindex({x}, {n, b, a}, {axis(0), axis(2), axis(1)});
  return elementwise(g, {turned, z}, [](const std::vector<Expr>& v) { return v[0] * float_constant(2, DType::f32) + v[1]; });
}

std::vector<Tensor> sides(int64_t a, int64_t b) { return {ramp({2, a, b}, 5), ramp({2, b, a}, 3)}; }

TEST(TransposedNest, EverySizeOfASide) {
  for (const char* cpu : cpus)
    for (auto [a, b] : std::vector<std::pair<int64_t, int64_t>>{
             {8, 8}, {16, 16}, {9, 33}, {33, 9}, {15, 17}, {64, 48}, {31, 8}, {3, 40}}) {
      Graph g;
      g.outputs = {transposed_sum(g, 2, a, b)};
      std::string schedule = expect_reference(g, {sides(a, b)}, cpu, 0);
      EXPECT_EQ(schedule.find("square blocks") != std::string::npos, a >= 8 && b >= 8) << a << " x " << b;
    }
}

TEST(TransposedNest, OpenSides) {
  for (const char* cpu : cpus) {
    Graph g;
    Expr a = symbol(g.add_symbol({.name = "a", .max = 1000, .from_input = true})),
         b = symbol(g.add_symbol({.name = "b", .max = 1000, .from_input = true}));
    g.outputs = {transposed_sum(g, 2, a, b)};
    std::vector<std::vector<Tensor>> inputs;
    for (auto [rows, columns] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {16, 16}, {1, 40}, {40, 1}, {17, 31}, {7, 9}, {48, 64}})
      inputs.push_back(sides(rows, columns));
    EXPECT_NE(expect_reference(g, inputs, cpu, 0).find("square blocks"), std::string::npos);
  }
}

// y[n, r] = 2 x[n, r % p, r / p] + z[n, r]: a flattened result of channels that lie side by side (a Reshape behind a
// convolution) is blocks of its digits.
TEST(TransposedNest, DigitsOfAFlattenedResult) {
  for (const char* cpu : cpus)
    for (auto [channels, points] : std::vector<std::pair<int64_t, int64_t>>{{16, 196}, {8, 9}, {9, 33}, {3, 40}, {40, 3}}) {
      Graph g;
      const int64_t all = channels * points;
      Var *x = input(g, "x", {2, points, channels}), *z = input(g, "z", {2, all});
      Var* flat = g.reindex({x}, {2, all}, {axis(0), floor_mod(axis(1), points), floor_div(axis(1), points)});
      g.outputs = {
          elementwise(g, {flat, z}, [](const std::vector<Expr>& v) { return v[0] * float_constant(2, DType::f32) + v[1]; })};
      const std::string schedule = expect_reference(g, {{ramp({2, points, channels}, 5), ramp({2, all}, 3)}}, cpu, 0);
      EXPECT_EQ(schedule.find("square blocks") != std::string::npos, channels >= 8 && points >= 8)
          << channels << " channels, " << points << " points";
    }
}

// What a condition guards does not exist where it is false: slices that a pad adds have no memory to load from.
TEST(TransposedNest, GuardedLoadsAreNotTransposed) {
  for (const char* cpu : cpus) {
    Graph g;
    Var* padded = pad(g, input(g, "x", {2, 16, 24}), {3, 0, 0}, {2, 0, 0}, float_constant(0.5, DType::f32));
    g.outputs = {transpose(g, padded, {0, 2, 1})};
    EXPECT_EQ(expect_reference(g, {{ramp({2, 16, 24}, 5)}}, cpu, 0).find("square blocks"), std::string::npos);
  }
}

// A condition on what is transposed itself guards nothing that is not loaded anyway: the slope of a leaky Relu, a softplus.
TEST(TransposedNest, ConditionsOnWhatIsTransposed) {
  for (const char* cpu : cpus) {
    Graph g;
    Var* x = input(g, "x", {2, 17, 24});
    Var* bent = elementwise(g, {x}, [](const std::vector<Expr>& v) {
      return select(float_constant(0, DType::f32) < v[0], v[0], v[0] * float_constant(0.125, DType::f32));
    });
    g.outputs = {transpose(g, bent, {0, 2, 1})};
    EXPECT_NE(expect_reference(g, {{ramp({2, 17, 24}, 5)}}, cpu, 0).find("square blocks"), std::string::npos) << cpu;
  }
}

// Bytes are transposed as the numbers that they are widened to.
TEST(TransposedNest, NarrowElements) {
  for (const char* cpu : cpus)
    for (const DType dtype : {DType::u8, DType::i8}) {
      Graph g;
      Var* x = g.add_input("x", Type{TypeKind::tensor, dtype, {2, 17, 24}});
      Var* z = input(g, "z", {2, 24, 17});
      g.outputs = {elementwise(g, {transpose(g, x, {0, 2, 1}), z}, [](const std::vector<Expr>& v) {
        return cast(cast(v[0], DType::i32) - int_constant(3, DType::i32), DType::f32) * float_constant(0.25, DType::f32) + v[1];
      })};
      std::vector<uint8_t> elements;  // the same as int8
      for (int k = 0; k < 2 * 17 * 24; ++k) elements.push_back(static_cast<uint8_t>(k * k % 127));
      const Tensor narrow = make_tensor(dtype, {2, 17, 24}, elements);
      EXPECT_NE(expect_reference(g, {{narrow, ramp({2, 24, 17}, 3)}}, cpu, 0).find("square blocks"), std::string::npos)
          << cpu << ", " << name_of(dtype);
    }
}

// What is rounded after the transpose, with operands that lie along the lanes, is rounded in the lanes.
TEST(TransposedNest, RoundedValues) {
  for (const char* cpu : cpus) {
    Graph g;
    Var *x = input(g, "x", {2, 17, 24}), *z = input(g, "z", {2, 24, 17});
    g.outputs = {elementwise(g, {transpose(g, x, {0, 2, 1}), z}, [](const std::vector<Expr>& v) {
      return cast(cast(cast(v[0] + v[1], DType::i8), DType::i32), DType::f32) * float_constant(0.25, DType::f32);
    })};
    EXPECT_NE(expect_reference(g, {{ramp({2, 17, 24}, 5), ramp({2, 24, 17}, 3)}}, cpu, 0).find("square blocks"),
              std::string::npos)
        << cpu;
  }
}

// y[n, c, k] = x[n, at[2k], c] * weight[2k] + x[n, at[2k + 1], c] * weight[2k + 1]: tables step by two along the lanes, so
// that the value is computed along c and then turned.
TEST(TransposedNest, Interpolation) {
  for (const char* cpu : cpus)
    for (auto [from, to, channels] :
         std::vector<std::array<int64_t, 3>>{{5, 16, 8}, {7, 33, 21}, {40, 64, 17}, {9, 40, 3}}) {
      Graph g;
      Var *x = input(g, "x", {2, from, channels}), *weights = input(g, "weights", {to, 2});
      Var* at = g.add_input("at", Type{TypeKind::tensor, DType::i64, {to, 2}});
      auto side = [&](int64_t k) {
        Expr place = load(1, DType::i64, {axis(2), Expr(k)});
        Var* taken = g.reindex({x, at}, {2, channels, to}, {axis(0), place, axis(1)});
        return map(g, Fn::mul, taken, g.reindex({weights}, {2, channels, to}, {axis(2), Expr(k)}));
      };
      g.outputs = {map(g, Fn::add, side(0), side(1))};
      std::vector<int64_t> squares;
      for (int64_t k = 0; k < 2 * to; ++k) squares.push_back(k * k % from);
      const Tensor places = make_tensor(DType::i64, {to, 2}, squares);
      std::string schedule = expect_reference(g, {{ramp({2, from, channels}, 5), ramp({to, 2}, 3), places}}, cpu, 0);
      EXPECT_EQ(schedule.find("square blocks") != std::string::npos, channels >= 8) << cpu << " " << channels << "\n"
                                                                                    << schedule;
    }
}

// softmax(q k + bias) v: rows of q, and of the bias, along the lanes
TEST(RowsAlongTheLanes, AttentionWithABias) {
  for (const char* cpu : cpus)
    for (auto [queries, keys] : std::vector<std::pair<int64_t, int64_t>>{{32, 48}, {49, 49}, {37, 33}, {64, 20}}) {
      Graph g;
      Var *q = input(g, "q", {2, queries, 16}), *k = input(g, "k", {2, 16, keys}), *v = input(g, "v", {2, keys, 24}),
          *bias = input(g, "bias", {2, queries, keys});
      Var* scores = map(g, Fn::add, matmul(g, q, k), bias);
      Var* e = map(g, Fn::exp, map(g, Fn::sub, scores, reduce(g, scores, {2}, Reduce::max, true)));
      g.outputs = {matmul(g, map(g, Fn::div, e, reduce(g, e, {2}, Reduce::add, true)), v)};
      std::string schedule = expect_reference(
          g, {{ramp({2, queries, 16}, 5), ramp({2, 16, keys}, 3), ramp({2, keys, 24}, 7), ramp({2, queries, keys}, 11)}},
          cpu, 1e-5f);
      EXPECT_NE(schedule.find("rows along the lanes"), std::string::npos) << cpu << " " << queries << " x " << keys << "\n"
                                                                          << schedule;
    }
}

}  // namespace
}  // namespace metac::transposed_nest_test
