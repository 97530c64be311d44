// What cuBLASLt does beside a product: gelu that keeps its argument, gelu's gradient, gradients of biases. Where that is
// found and, as often, where it must not be. tests/cuda runs such calls on a stand-in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/ir/builders.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/ops/pointwise/activations.h"
#include "compiler/program/compile.h"
#include "compiler/target/target.h"

namespace metac::library_beside_test {
namespace {

using testing::HasSubstr;
using testing::Not;

Var* input(Graph& g, const char* name, Shape shape, DType dtype = DType::f32) {
  return g.add_input(name, Type{TypeKind::tensor, dtype, std::move(shape)});
}

// The kernels of a graph, one text; how many there are in front of it.
std::string kernels_of(Graph& g, bool library = true) {
  CompileOptions options;
  options.cpu = cpu_target("native");
  options.target = &target_named("cuda");
  options.external.products = library;
  const CompiledModel model = compile_graph(g, options);
  std::string text = std::to_string(model.run.kernels.size()) + " kernels\n";
  for (const KernelSource& kernel : model.run.kernels) text += kernel.text;
  return text;
}

// Half types are multiplied and summed up in float32, as operators have it.
Var* product(Graph& g, Var* a, Var* b) {
  const DType dtype = a->dtype();
  return size_of(dtype) == 2 ? cast(g, matmul(g, cast(g, a, DType::f32), cast(g, b, DType::f32)), dtype) : matmul(g, a, b);
}

Var* gelu_of(Graph& g, Var* x) {
  return elementwise(g, {x}, [&](const std::vector<Expr>& v) {
    return x->dtype() == DType::f64 ? gelu_tanh(v[0]) : cast(gelu_tanh(cast(v[0], DType::f32)), x->dtype());
  });
}

struct Forward {
  Graph g;
  Var* z;
  explicit Forward(int64_t width, DType dtype = DType::f32, Shape rows = {48}) {
    Shape shape = rows;
    shape.push_back(40);
    Var* x = input(g, "x", shape, dtype);
    z = map(g, Fn::add, product(g, x, input(g, "w", {40, width}, dtype)), input(g, "b", {width}, dtype));
  }
  std::string with(Var* h, bool library = true) {
    g.outputs = {z, h};
    return kernels_of(g, library);
  }
};

TEST(LibraryBeside, GeluAndWhatItIsAppliedToAreOneCall) {
  for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    Forward f(64, dtype, {3, 16});
    const std::string text = f.with(gelu_of(f.g, f.z));
    EXPECT_THAT(text, HasSubstr("1 kernels"));
    EXPECT_THAT(text, HasSubstr("gelu_tanh_activation, no_bias_gradient"));
    // Without that epilogue the library does the product, and without the library a kernel; gelu is then a second kernel.
    EXPECT_THAT(text, HasSubstr("product2 = "));
    EXPECT_THAT(text, HasSubstr("_beside(rest"));
  }
}

TEST(LibraryBeside, OtherThingsBehindAProductAreKernels) {
  Forward odd(60), moved(64), none(64);
  EXPECT_THAT(odd.with(gelu_of(odd.g, odd.z)), HasSubstr("2 kernels"));  // 60 elements from row to row
  EXPECT_THAT(moved.with(transpose(moved.g, gelu_of(moved.g, moved.z), {1, 0})), Not(HasSubstr("_beside(rest")));
  EXPECT_THAT(none.with(gelu_of(none.g, none.z), false), HasSubstr("2 kernels"));
  Forward other(64);
  EXPECT_THAT(other.with(elementwise(other.g, {other.z}, [](const std::vector<Expr>& v) { return gelu(v[0]); })),
              HasSubstr("2 kernels"));
  Forward wide(64, DType::f64);
  EXPECT_THAT(wide.with(gelu_of(wide.g, wide.z)), HasSubstr("2 kernels"));
}

// The gradients of a weight and a bias, as a layer of `rows` by 40 inputs and 56 outputs has them.
struct Layer {
  Graph g;
  Var *x, *gradient;
  explicit Layer(Shape rows = {64}, DType dtype = DType::f32) {
    Shape wide = rows;
    rows.push_back(40);
    wide.push_back(56);
    x = input(g, "x", rows, dtype);
    gradient = input(g, "gradient", wide, dtype);
  }
  Var* of_weight(bool transposed = false) {
    Var *left = transposed ? gradient : x, *right = transposed ? x : gradient;
    Shape domain(left->shape().begin(), left->shape().end() - 1);
    std::vector<int> summed;
    std::vector<Expr> at;
    for (int k = 0; k + 1 < left->rank(); ++k) summed.push_back(k), at.push_back(axis(k));
    const int kept = left->rank() - 1;
    domain.insert(domain.end(), {left->shape().back(), right->shape().back()});
    at.push_back(axis(kept));
    Var* first = g.reindex({left}, domain, at);
    at.back() = axis(kept + 1);
    return reduce(g, map(g, Fn::mul, first, g.reindex({right}, domain, at)), summed, Reduce::add, false);
  }
  Var* of_bias() {
    std::vector<int> axes;
    for (int k = 0; k + 1 < gradient->rank(); ++k) axes.push_back(k);
    return reduce(g, gradient, axes, Reduce::add, false);
  }
  std::string with(std::vector<Var*> outputs) {
    g.outputs = std::move(outputs);
    return kernels_of(g);
  }
};

TEST(LibraryBeside, GradientsOfAWeightAndABiasAreOneCall) {
  for (const Shape& rows : {Shape{64}, Shape{4, 16}})
    for (bool transposed : {false, true})
      for (bool bias_first : {false, true}) {
        Layer l(rows);
        Var* first = bias_first ? l.of_bias() : l.of_weight(transposed);
        const std::string text = l.with({first, bias_first ? l.of_weight(transposed) : l.of_bias()});
        EXPECT_THAT(text, HasSubstr("1 kernels")) << transposed << bias_first;
        EXPECT_THAT(text, HasSubstr(transposed ? "bias_gradient_of_rows" : "bias_gradient_of_columns"));
        EXPECT_THAT(text, HasSubstr("_beside(rest"));
      }
}

TEST(LibraryBeside, WithAnUpdateOfTheWeight) {
  Layer l;
  Var* step = elementwise(l.g, {input(l.g, "weight", {40, 56}), l.of_weight()}, [](const std::vector<Expr>& v) {
    return v[0] - float_constant(0.1, DType::f32) * call(Fn::sign, {v[1]});
  });
  const std::string text = l.with({step, l.of_bias()});
  EXPECT_THAT(text, HasSubstr("1 kernels"));
  EXPECT_THAT(text, HasSubstr("_finish(rest"));
}

TEST(LibraryBeside, OtherSumsAreKernels) {
  Layer scaled, squares, across;
  Var* doubled = elementwise(scaled.g, {scaled.of_weight()},
                             [](const std::vector<Expr>& v) { return v[0] * float_constant(2, DType::f32); });
  EXPECT_THAT(scaled.with({doubled, scaled.of_bias()}), HasSubstr("2 kernels"));
  Var* squared = reduce(squares.g, map(squares.g, Fn::mul, squares.gradient, squares.gradient), {0}, Reduce::add, false);
  EXPECT_THAT(squares.with({squares.of_weight(), squared}), HasSubstr("2 kernels"));
  EXPECT_THAT(across.with({across.of_weight(), reduce(across.g, across.gradient, {1}, Reduce::add, false)}),
              HasSubstr("2 kernels"));
  // The product with the weight reads the gradient too, along its other axis: as many elements, other sums.
  Graph square;
  Var *gradient = input(square, "gradient", {56, 56}), *weight = input(square, "weight", {56, 56});
  square.outputs = {matmul(square, gradient, weight), reduce(square, gradient, {0}, Reduce::add, false)};
  EXPECT_THAT(kernels_of(square), HasSubstr("2 kernels"));
}

TEST(LibraryBeside, NothingMovesPastWhatItNeedsOrMakes) {
  Layer l;
  // The bias's gradient, what is made of it, and a product that reads that.
  Var* bias = l.of_bias();
  Var* scale = reduce(l.g, bias, {0}, Reduce::max, false);
  Var* x = elementwise(l.g, {l.x, scale}, [](const std::vector<Expr>& v) { return v[0] * v[1]; });
  x->stop_fuse = true;
  l.x = x;
  EXPECT_THAT(l.with({l.of_weight(), bias}), Not(HasSubstr("_beside(rest")));
  // Made in between of something else it is no hindrance.
  Layer free;
  Var* first = free.of_bias();
  free.x = elementwise(free.g, {free.x}, [](const std::vector<Expr>& v) { return call(Fn::exp, {v[0]}); });
  free.x->stop_fuse = true;
  EXPECT_THAT(free.with({free.of_weight(), first}), HasSubstr("_beside(rest"));
}

TEST(LibraryBeside, TheGradientOfGeluIsAnEpilogue) {
  for (int64_t width : {64, 60}) {
    Graph g;
    Var *d = input(g, "d", {48, 40}), *w = input(g, "w", {width, 40}), *z = input(g, "z", {48, width});
    g.outputs = {elementwise(g, {matmul(g, d, transpose(g, w, {1, 0})), z}, [](const std::vector<Expr>& v) {
      const Expr t = call(Fn::tanh, {float_constant(0.7978845608, DType::f32) *
                                     (v[1] + float_constant(0.044715, DType::f32) * v[1] * v[1] * v[1])}),
                 one = float_constant(1, DType::f32);
      const Expr slope =
          float_constant(0.7978845608, DType::f32) * (one + float_constant(3 * 0.044715, DType::f32) * v[1] * v[1]);
      return v[0] *
             (float_constant(0.5, DType::f32) * (one + t) + float_constant(0.5, DType::f32) * v[1] * (one - t * t) * slope);
    })};
    const std::string text = kernels_of(g);
    EXPECT_EQ(text.find("gelu_tanh_gradient, no_bias_gradient") != std::string::npos, width == 64);
    EXPECT_THAT(text, HasSubstr("_finish(rest"));  // where the library has no such epilogue for these types
  }
}

}  // namespace
}  // namespace metac::library_beside_test
