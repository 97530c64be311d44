// Reductions of a GPU library in two passes: how many parts there are, and where there are none. What they compute is tested
// on the stand-in (tests/cuda, models parts_of_*).
#include <gtest/gtest.h>

#include "compiler/ir/builders.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/program/compile.h"
#include "compiler/target/target.h"

namespace metac::split_reductions_test {
namespace {

Var* input(Graph& g, Shape shape, const char* name = "x", DType dtype = DType::f32) {
  return g.add_input(name, Type{TypeKind::tensor, dtype, std::move(shape)});
}

CompiledModel compiled(Graph& g, Var* out, bool library = false) {
  g.outputs = {out};
  CompileOptions options;
  options.cpu = cpu_target("native");
  options.target = &target_named("cuda");
  options.external.products = library;
  return compile_graph(g, options);
}

// Elements of the value between two kernels; 0: there is one kernel.
int64_t parts(Graph& g, Var* out, bool library = false) {
  const CompiledModel model = compiled(g, out, library);
  EXPECT_LE(model.run.kernels.size(), 2u);
  int64_t elements = 0;
  for (const rt::Buffer& b : model.run.buffers)
    if (b.kind == rt::BufferKind::arena)
      elements += b.bytes.value / static_cast<int64_t>(size_of(static_cast<DType>(b.dtype)));
  EXPECT_EQ(elements > 0, model.run.kernels.size() == 2);
  return elements;
}

int64_t parts_of_sum(Shape shape, const std::vector<int>& axes) {
  Graph g;
  Var* x = input(g, std::move(shape));
  return parts(g, reduce(g, x, axes, Reduce::add, false));
}

TEST(SplitReductions, AsManyPartsAsFillACard) {
  EXPECT_EQ(parts_of_sum({1 << 24}, {0}), 512);  // blocks
  EXPECT_EQ(parts_of_sum({64, 64, 56, 56}, {0, 2, 3}), 8 * 64);
  EXPECT_EQ(parts_of_sum({100000, 96}, {0}), 625 * 96);  // threads: neighbours are results
  EXPECT_EQ(parts_of_sum({4096, 2048}, {0}), 32 * 2048);
}

TEST(SplitReductions, PartsAreLongEnough) {
  EXPECT_EQ(parts_of_sum({1 << 16}, {0}), 8);
  EXPECT_EQ(parts_of_sum({1 << 14}, {0}), 0);
  EXPECT_EQ(parts_of_sum({64, 2048}, {0}), 0);
}

TEST(SplitReductions, WhatFillsACardIsOneKernel) {
  EXPECT_EQ(parts_of_sum({512, 1 << 16}, {1}), 0);
  EXPECT_EQ(parts_of_sum({100, 1 << 17}, {0}), 0);
}

// No divisor of the length is near: the last part is shorter.
TEST(SplitReductions, APrimeLength) { EXPECT_EQ(parts_of_sum({8388593}, {0}), 512); }

TEST(SplitReductions, OpenDimsAreOneKernel) {
  Graph g;
  Symbol n;
  n.name = "n";
  n.from_input = true;
  g.symbols.push_back(n);
  Var* x = input(g, {symbol(0), 1 << 14});
  EXPECT_EQ(parts(g, reduce(g, x, {0, 1}, Reduce::add, false)), 0);
}

// Sums of products have so many parts as give tiles enough; a library has its own ways.
TEST(SplitReductions, Products) {
  for (const bool library : {false, true}) {
    Graph g;
    Var* x = input(g, {128, 16384});
    EXPECT_EQ(parts(g, matmul(g, x, input(g, {16384, 128}, "w")), library), library ? 0 : 32 * 128 * 128);
  }
  Graph g;
  Var* x = input(g, {1, 4096});
  EXPECT_EQ(parts(g, matmul(g, x, input(g, {4096, 4096}, "w"))), 16 * 4096);
}

// Few long rows come apart: sums in two passes each, then what is done to the elements. Short ones, or many, are a kernel.
TEST(SplitReductions, Rows) {
  for (const auto& [rows, length, kernels] :
       {std::tuple{4, 1 << 18, 5u}, std::tuple{4, 1 << 12, 1u}, std::tuple{256, 1 << 16, 1u}}) {
    Graph g;
    Var* x = input(g, {rows, length});
    Var* centred = map(g, Fn::sub, x, mean(g, x, {1}, true));
    Var* variance = mean(g, map(g, Fn::mul, centred, centred), {1}, true);
    const CompiledModel model = compiled(g, map(g, Fn::div, centred, map(g, Fn::sqrt, variance)));
    EXPECT_EQ(model.run.kernels.size(), kernels) << rows << " rows of " << length;
  }
}

// Rows whose elements lie apart, one beside the other in memory: reductions of their own.
TEST(SplitReductions, RowsAcross) {
  for (const auto& [shape, axis, kernels] :
       {std::tuple{Shape{2, 300, 1800}, 1, 5u}, std::tuple{Shape{4096, 512}, 0, 5u}, std::tuple{Shape{2, 300, 180}, 1, 1u},
        std::tuple{Shape{2, 1800, 300}, 2, 1u}}) {
    Graph g;
    Var* x = input(g, shape);
    Var* centred = map(g, Fn::sub, x, mean(g, x, {axis}, true));
    Var* variance = mean(g, map(g, Fn::mul, centred, centred), {axis}, true);
    const CompiledModel model = compiled(g, map(g, Fn::div, centred, map(g, Fn::sqrt, variance)));
    EXPECT_EQ(model.run.kernels.size(), kernels) << to_string(shape) << " along " << axis;
  }
}

}  // namespace
}  // namespace metac::split_reductions_test
