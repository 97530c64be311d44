// Weights of few bits in front of a product: the weights block holds them as narrow as they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/ir/builders.h"
#include "compiler/jit/jit_program.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/ops/pointwise/arithmetic.h"
#include "compiler/program/compile.h"
#include "compiler/target/precision.h"
#include "tests/unit/ramp.h"
#include "tests/unit/schedules_of.h"

namespace metac::narrow_weights_test {
namespace {

using testing::HasSubstr;

constexpr int64_t depth = 128, columns = 96, block = 32;

Tensor bytes(std::vector<int64_t> shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  std::vector<uint8_t> values;
  for (int64_t k = 0; k < n; ++k) values.push_back(static_cast<uint8_t>(k * 37 % 256));
  return make_tensor<uint8_t>(DType::u8, std::move(shape), values);
}

// x [rows, depth] times numbers of 4 bits, two in a byte, that have a scale for a block of steps.
struct Product {
  Graph g;
  Var *bits = nullptr, *scales = nullptr, *weights = nullptr;
  explicit Product(std::optional<int64_t> rows) {
    const Expr n = rows ? Expr(*rows) : symbol(g.add_symbol({.name = "n", .min = 1, .hint = 32, .from_input = true}));
    Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f32, {n, depth}});
    bits = g.add_constant(bytes({columns, depth / 2}));
    scales = g.add_constant(ramp({columns, depth / block}, 5));
    const Expr k = axis(0), column = axis(1);
    const Expr byte = cast(load(0, DType::u8, {column, floor_div(k, 2)}), DType::i32);
    const Expr shift = cast(floor_mod(k, 2) * Expr(4), DType::i32);
    const Expr number = call(Fn::bit_and, {call(Fn::shift_right, {byte, shift}), int_constant(15, DType::i32)});
    const Expr value =
        (cast(number, DType::f32) - float_constant(8, DType::f32)) * load(1, DType::f32, {column, floor_div(k, block)});
    weights = g.elementwise({bits, scales}, {depth, columns}, value);
    g.outputs = {matmul(g, x, weights)};
  }
};

int64_t weight_bytes(const CompiledModel& model) {
  int64_t bytes = 0;
  for (const WeightSource& w : model.weights) bytes += w.bytes;
  return bytes;
}

TEST(NarrowWeights, TakeTheirOwnBits) {
  for (const char* cpu : {"x86-64", "x86-64-v3", "x86-64-v4"})
    for (const std::optional<int64_t> rows : {std::optional<int64_t>(1), std::optional<int64_t>(64), {}}) {
      Product product(rows);
      CompileOptions options;
      options.cpu = cpu_target(cpu);
      const CompiledModel model = compile_graph(product.g, options);
      const int64_t file = columns * depth / 2 + columns * (depth / block) * 4;
      EXPECT_LE(weight_bytes(model), file * 105 / 100) << cpu << ", rows " << rows.value_or(0);
    }
}

// What is packed alike is packed once.
TEST(NarrowWeights, ProductsOfOneWeightShareIt) {
  Product product(64);
  Graph& g = product.g;
  Var* other = g.add_input("other", Type{TypeKind::tensor, DType::f32, {64, depth}});
  g.outputs.push_back(matmul(g, other, product.weights));
  CompileOptions options;
  options.cpu = cpu_target("x86-64-v3");
  EXPECT_LE(weight_bytes(compile_graph(g, options)), (columns * depth / 2 + columns * (depth / block) * 4) * 105 / 100);
}

TEST(NarrowWeights, ManyRowsShareAWidenedPanelAndFewDoNot) {
  CompileOptions options;
  options.cpu = cpu_target("x86-64-v4");
  Product one(1), many(64), open({});
  EXPECT_THAT(schedules_of(compile_graph(one.g, options)), testing::Not(HasSubstr("widened")));
  EXPECT_THAT(schedules_of(compile_graph(many.g, options)), HasSubstr("panels widened"));
  const std::string both = schedules_of(compile_graph(open.g, options));
  EXPECT_THAT(both, HasSubstr("panels widened"));
  EXPECT_THAT(both, HasSubstr("up to 8 rows"));
}

// A sum so long that its panel passes the cache in chunks, whose sums wait in a worker's memory: it goes through them
// itself.
TEST(NarrowWeights, ChunksOfALongSumStayWithOneWorker) {
  constexpr int64_t long_depth = 5632, rows = 512, many_columns = 512;
  Graph g;
  const Expr n = symbol(g.add_symbol({.name = "n", .min = 1, .hint = 128, .from_input = true}));
  Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f32, {n, long_depth}});
  const Tensor stored = bytes({long_depth, many_columns});
  const Expr value = cast(load(0, DType::u8, {axis(0), axis(1)}), DType::f32) - float_constant(128, DType::f32);
  g.outputs = {matmul(g, x, g.elementwise({g.add_constant(stored)}, {long_depth, many_columns}, value))};
  CompileOptions options;
  options.cpu = cpu_target("x86-64-v3");
  options.cpu.l2_bytes = 1 << 20;
  CompiledModel model = compile_graph(g, options);
  EXPECT_THAT(schedules_of(model), HasSubstr("chunks"));
  const WeightsBlock weights = run_prepare(model, options.cpu);
  JitProgram program(std::make_shared<CompiledProgram>(std::move(model.run)), weights, options.cpu, 4);
  const Tensor input = ramp({rows, long_depth}, 7), found = program.run({input})[0];
  for (int64_t row = 0; row < rows; row += 7)
    for (int64_t column = 0; column < many_columns; column += 51) {
      double sum = 0;
      for (int64_t k = 0; k < long_depth; ++k)
        sum += number_at(input, row * long_depth + k) * (number_at(stored, k * many_columns + column) - 128);
      ASSERT_NEAR(number_at(found, row * many_columns + column), sum, 0.5) << row << ", " << column;
    }
}

// Permission is the product's own: neither a neighbour of the same model node (a function's body) gives it nor does what
// follows in the same kernel, which sums too, take it away.
TEST(NarrowWeights, DataAreBytesWhereTheProductAllowsIt) {
  for (const bool first : {false, true})
    for (const bool second : {false, true}) {
      Product product(64);
      Graph& g = product.g;
      Var *x = g.inputs[0], *one = g.outputs[0], *two = matmul(g, one, g.add_constant(ramp({columns, depth}, 3)));
      const auto element = [](int k) { return load(k, DType::f32, {axis(0), axis(1)}); };
      Var* sum = matmul(g, g.elementwise({x, two}, {32, depth}, element(0) + element(1)), product.weights);
      g.outputs = {sum};
      for (Op* op : g.ops) {
        op->origin.node = 7;
        if (op->kind != OpKind::reindex_reduce) continue;
        op->origin.int8_data = op->outputs[0] == one ? first : op->outputs[0] == sum && second;
      }
      CompileOptions options;
      options.cpu = cpu_target("x86-64-v3");
      const std::string schedules = schedules_of(compile_graph(g, options)), bytes = "multiplied as bytes";
      int found = 0;
      for (size_t at = 0; (at = schedules.find(bytes, at)) != std::string::npos; ++at) ++found;
      EXPECT_EQ(found, first + second) << schedules;
    }
}

// Who compiles may allow it too, for all products but those that are named.
TEST(NarrowWeights, DataAreBytesWherePrecisionIsInt8) {
  const auto schedules = [](DType precision, const char* keep) {
    Product product(64);
    for (Op* op : product.g.ops) op->origin.name = "layers.3", op->origin.op_type = "MatMulNBits";
    CompileOptions options;
    options.cpu = cpu_target("x86-64-v3");
    options.precision = precision;
    if (*keep != 0) options.keep = {keep};
    return schedules_of(compile_graph(product.g, options));
  };
  EXPECT_THAT(schedules(DType::i8, ""), HasSubstr(multiplied_as_bytes));
  EXPECT_THAT(schedules(DType::i8, "layers.[0-2]"), HasSubstr(multiplied_as_bytes));
  EXPECT_THAT(schedules(DType::i8, "layers.3"), testing::Not(HasSubstr(multiplied_as_bytes)));
  EXPECT_THAT(schedules(DType::f32, ""), testing::Not(HasSubstr(multiplied_as_bytes)));
}

// Weights of 8 bits, four in a word: by the instruction that adds up four products, and by pairs of signed bytes.
TEST(NarrowWeights, WordsOfBytesMultiplyBytes) {
  for (const auto& [stored, instruction, rows] : std::vector<std::tuple<DType, bool, int64_t>>{{DType::u8, false, 1},
                                                                                               {DType::u8, false, 64},
                                                                                               {DType::i8, false, 3},
                                                                                               {DType::u8, true, 3},
                                                                                               {DType::i8, true, 1},
                                                                                               {DType::i8, true, 64}}) {
    Graph g;
    const Expr n = symbol(g.add_symbol({.name = "n", .min = 1, .hint = 32, .from_input = true}));
    Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f32, {n, depth}});
    Tensor numbers = bytes({columns, depth});
    numbers.dtype = stored;
    const Tensor scales = ramp({columns, depth / block}, 5);
    const Expr number = cast(load(0, stored, {axis(1), axis(0)}), DType::f32);
    const Expr value = (number - float_constant(7, DType::f32)) * load(1, DType::f32, {axis(1), floor_div(axis(0), block)});
    g.outputs = {matmul(g, x, g.elementwise({g.add_constant(numbers), g.add_constant(scales)}, {depth, columns}, value))};
    for (Op* op : g.ops) op->origin.int8_data = op->kind == OpKind::reindex_reduce;
    CompileOptions options;
    options.cpu = cpu_target("x86-64-v3");
    options.cpu.byte_products = instruction;  // where there is none dot_s8u8 is made of others, to the same numbers
    CompiledModel model = compile_graph(g, options);
    EXPECT_THAT(schedules_of(model), HasSubstr("multiplied as bytes"));
    EXPECT_LE(weight_bytes(model), (columns * depth + columns * (depth / block) * 4) * 105 / 100);
    const WeightsBlock weights = run_prepare(model, options.cpu);
    JitProgram program(std::make_shared<CompiledProgram>(std::move(model.run)), weights, options.cpu, 2);
    const Tensor input = ramp({rows, depth}, 7), found = program.run({input})[0];
    for (int64_t row = 0; row < rows; ++row) {
      double data[depth];
      for (int64_t begin = 0; begin < depth; begin += block) {
        float most = 0;
        for (int64_t k = begin; k < begin + block; ++k)
          most = std::max(most, std::abs(static_cast<float>(number_at(input, row * depth + k))));
        for (int64_t k = begin; k < begin + block; ++k) {
          const float units = most > 0 ? static_cast<float>(number_at(input, row * depth + k)) * (127 / most) : 0;
          data[k] = std::rint(units) * double{most} / 127;
        }
      }
      for (int64_t column = 0; column < columns; ++column) {
        double sum = 0, size = 0;
        for (int64_t k = 0; k < depth; ++k) {
          const double weight =
              (number_at(numbers, column * depth + k) - 7) * number_at(scales, column * (depth / block) + k / block);
          sum += data[k] * weight, size += std::abs(data[k] * weight);
        }
        ASSERT_NEAR(number_at(found, row * columns + column), sum, 1e-5 * size)
            << name_of(stored) << ", " << rows << " rows: " << row << ", " << column;
      }
    }
  }
}

// Somebody else reads the widened weights: they are made for both, or for that one alone.
TEST(NarrowWeights, AnotherReaderIsServed) {
  Product product(4);
  product.g.outputs.push_back(product.weights);
  CompileOptions options;
  options.cpu = cpu_target("native");
  CompiledModel model = compile_graph(product.g, options);
  const WeightsBlock weights = run_prepare(model, options.cpu);
  JitProgram program(std::make_shared<CompiledProgram>(std::move(model.run)), weights, options.cpu, 1);
  const Tensor x = ramp({4, depth}, 7);
  const std::vector<Tensor> found = program.run({x});
  ASSERT_EQ(found.size(), 2u);
  for (int64_t row = 0; row < 4; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      double sum = 0;
      for (int64_t k = 0; k < depth; ++k) sum += number_at(x, row * depth + k) * number_at(found[1], k * columns + column);
      EXPECT_NEAR(number_at(found[0], row * columns + column), sum, 1e-4 * (1 + std::abs(sum)));
    }
}

}  // namespace
}  // namespace metac::narrow_weights_test
