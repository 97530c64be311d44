// Sums over dims that a Reshape flattened: digits of a summed axis become axes, and statistics of groups of channels are
// taken channel by channel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "compiler/ir/builders.h"
#include "compiler/jit/jit_program.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/program/compile.h"
#include "compiler/tensor/split_digits.h"
#include "tests/unit/ramp.h"

namespace metac::group_statistics_test {
namespace {

const std::vector<Symbol> two_symbols = {{.name = "h", .min = 1, .from_input = true},
                                         {.name = "w", .min = 1, .from_input = true}};

// Sums x[i0, i1/(h*w) + 4*i0, i1/w % h, i1 % w] over i1 < extent.
Definition sum_of_digits(Expr h, Expr w, Expr extent) {
  Definition d;
  d.domain = {16, extent};
  d.reduced = 1;
  d.reduce = Reduce::add;
  const Expr r = axis(1);
  d.body = load(7, DType::f32, {axis(0) * Expr(4) + floor_div(r, h * w), floor_mod(floor_div(r, w), h), floor_mod(r, w)});
  d.epilogue = load(reduced_value, DType::f32, {});
  d.out_index = {axis(0)};
  return d;
}

TEST(SplitDigits, EachDigitIsAnAxis) {
  const Expr open_h = floor_div(symbol(0) + Expr(1), 2), open_w = floor_div(floor_div(symbol(1) + Expr(1), 2) + Expr(1), 2);
  const std::vector<std::pair<Expr, Expr>> sides = {
      {5, 7}, {symbol(0), symbol(1)}, {symbol(0), 6}, {6, symbol(1)}, {open_h, open_w}};
  for (auto [h, w] : sides) {
    Definition d = sum_of_digits(h, w, h * w * Expr(4));
    ASSERT_TRUE(split_summed_digits(d, two_symbols)) << to_string(d);
    EXPECT_EQ(d.domain, (Shape{16, 4, h, w}));
    EXPECT_EQ(d.reduced, 3);
    EXPECT_EQ(d.body, load(7, DType::f32, {axis(0) * Expr(4) + axis(1), axis(2), axis(3)})) << to_string(d);
  }
}

TEST(SplitDigits, OtherDivisionsStay) {
  const Expr h = symbol(0), w = symbol(1);
  Definition longer = sum_of_digits(h, w, h * w * Expr(4) + Expr(1));  // no whole number of images
  EXPECT_FALSE(split_summed_digits(longer, two_symbols));
  Definition apart = sum_of_digits(h, w, h * w * Expr(4));
  apart.body = apart.body + load(8, DType::f32, {floor_div(axis(1), w + Expr(1))});  // rows of another length
  const Expr body = apart.body;
  EXPECT_FALSE(split_summed_digits(apart, two_symbols));
  EXPECT_EQ(apart.body, body);
  EXPECT_EQ(apart.domain.size(), 2u);
}

// 1 by 1, to `filters` channels.
Var* convolution(Graph& g, Var* x, int64_t filters) {
  const Expr channels = x->shape()[1];
  const Shape all = {x->shape()[0], filters, x->shape()[2], x->shape()[3], channels};
  Var* data = g.reindex({x}, all, {axis(0), axis(4), axis(2), axis(3)});
  Var* weights = g.reindex({g.add_constant(ramp({filters, channels.as_int()}, 7))}, all, {axis(1), axis(4)});
  return reduce(g, map(g, Fn::mul, data, weights), {4}, Reduce::add, false);
}

// Group normalisation as exporters write it: flattened to [images, groups, rest] and back.
struct Network {
  Graph g;
  Network(int64_t channels, int64_t groups, bool residual, std::vector<int64_t> fixed = {}) {
    std::vector<Expr> dims;
    for (size_t k = 0; k < 3; ++k)
      dims.push_back(!fixed.empty() ? Expr(fixed[k])
                                    : symbol(g.add_symbol({.name = k == 0   ? "n"
                                                                   : k == 1 ? "h"
                                                                            : "w",
                                                           .min = 1,
                                                           .hint = k == 0 ? 1 : 56,
                                                           .from_input = true})));
    Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f32, {dims[0], 16, dims[1], dims[2]}});
    Var* image = convolution(g, x, channels);
    if (residual) image = map(g, Fn::add, image, convolution(g, x, channels));
    Var* flat = reshape(g, image, {dims[0], groups, Expr(channels / groups) * dims[1] * dims[2]});
    Var* apart = map(g, Fn::sub, flat, mean(g, flat, {2}, true));
    Var* variance = mean(g, map(g, Fn::mul, apart, apart), {2}, true);
    Var* eps = g.add_constant(make_tensor<float>(DType::f32, {1, 1, 1}, {0.1f}));
    Var* normal = map(g, Fn::div, apart, map(g, Fn::sqrt, map(g, Fn::add, variance, eps)));
    normal = map(g, Fn::mul, normal, g.add_constant(ramp({groups, 1}, 7)));
    Var* back = reshape(g, normal, {dims[0], channels, dims[1], dims[2]});
    g.outputs = {map(g, Fn::mul, back, g.add_constant(ramp({channels, 1, 1}, 7)))};
  }
};

CompiledModel compiled(Graph& g, const char* cpu) {
  CompileOptions options;
  options.cpu = cpu_target(cpu);
  return compile_graph(g, options);
}

TEST(GroupStatistics, AreRightAtEverySize) {
  for (const char* cpu : {"native", "x86-64-v3", "x86-64"})
    for (auto [channels, groups] :
         std::vector<std::pair<int64_t, int64_t>>{{64, 16}, {64, 32}, {48, 16}, {32, 32}, {40, 5}, {16, 1}})
      for (bool residual : {false, true}) {
        Network network(channels, groups, residual), reference(channels, groups, residual);
        CompiledModel model = compiled(network.g, cpu);
        const CpuTarget target = cpu_target(cpu);
        const WeightsBlock weights = run_prepare(model, target);
        JitProgram program(std::make_shared<CompiledProgram>(std::move(model.run)), weights, target, 2);
        for (const auto& shape :
             std::vector<std::vector<int64_t>>{{1, 16, 8, 8}, {2, 16, 7, 13}, {1, 16, 1, 1}, {3, 16, 1, 9}}) {
          const std::vector<Tensor> found = program.run(std::vector<Tensor>{ramp(shape, 7)});
          const std::vector<Tensor> expected = evaluate(reference.g, std::vector<Tensor>{ramp(shape, 7)});
          ASSERT_EQ(found[0].shape, expected[0].shape);
          for (int64_t k = 0; k < found[0].element_count(); ++k)
            ASSERT_NEAR(number_at(found[0], k), number_at(expected[0], k), 2e-4)
                << cpu << ", " << channels << " channels in " << groups << " groups, element " << k;
        }
      }
}

// Nothing in a loop divides by a dim: a task's place does, at the head of a kernel.
TEST(GroupStatistics, LoopsDoNotDivide) {
  for (bool residual : {false, true}) {
    Network network(64, 16, residual);
    int kernels = 0;
    const CompiledModel model = compiled(network.g, "x86-64-v4");
    for (const KernelSource& kernel : model.run.kernels) {
      ++kernels;
      std::istringstream text(kernel.text);
      bool in_tasks = false;
      for (std::string line; std::getline(text, line);) {
        in_tasks |= line.find("for (int64_t task") != std::string::npos;
        if (!in_tasks || line.find("const int64_t i") == std::string::npos) continue;
        EXPECT_THAT(line, testing::Not(testing::ContainsRegex("[/%] (n|i|\\()"))) << kernel.name;
      }
    }
    EXPECT_GE(kernels, 4);
  }
}

// The sums for the mean and for the variance, over the points of a channel, and what is normalised, whether dims are open or
// not.
TEST(GroupStatistics, AreInLanes) {
  for (const std::vector<int64_t>& fixed : {std::vector<int64_t>{}, std::vector<int64_t>{1, 28, 28}}) {
    Network network(64, 16, false, fixed);
    const CompiledModel model = compiled(network.g, "x86-64-v4");
    int in_lanes = 0;
    std::string schedules;
    for (const KernelSource& kernel : model.run.kernels)
      for (const std::string& line : kernel.schedule) {
        in_lanes += line.starts_with("vectorise ") || line.starts_with("lanes across");
        schedules += kernel.name + ": " + line + "\n";
      }
    EXPECT_GE(in_lanes, 3) << schedules;
  }
}

}  // namespace
}  // namespace metac::group_statistics_test
