// Values of half types that go from one kernel of a GPU to the next stay half in memory, whatever is computed in float32 on
// the way: so the next product has operands that tensor cores and libraries take.
#include <gtest/gtest.h>

#include "compiler/ir/builders.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/program/compile.h"
#include "compiler/target/target.h"

namespace metac::half_between_kernels_test {
namespace {

// As operators of half types are lowered: in float32, and rounded.
Var* product(Graph& g, Var* a, Var* b) {
  return cast(g, matmul(g, cast(g, a, DType::f32), cast(g, b, DType::f32)), DType::f16);
}
Var* in_float(Graph& g, Fn fn, Var* x) { return cast(g, map(g, fn, cast(g, x, DType::f32)), DType::f16); }

CompiledModel compiled(Graph& g) {
  CompileOptions options;
  options.cpu = cpu_target("native");
  options.target = &target_named("cuda");
  options.external.products = true;
  return compile_graph(g, options);
}

TEST(HalfBetweenKernels, ProductsReadWhatTheirProducersRounded) {
  Graph g;
  Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f16, {48, 40}});
  const auto weight = [&](const char* name, int64_t rows) {
    return g.add_input(name, Type{TypeKind::tensor, DType::f16, {rows, 64}});
  };
  Var* first = in_float(g, Fn::exp, product(g, x, weight("v", 40)));
  // One reader and two, one function and several, a sum with an earlier value.
  Var* second = in_float(g, Fn::tanh, in_float(g, Fn::exp, map(g, Fn::add, product(g, first, weight("w", 64)), first)));
  g.outputs = {product(g, second, weight("u", 64))};
  const CompiledModel model = compiled(g);
  ASSERT_EQ(model.run.kernels.size(), 3u);
  for (const KernelSource& kernel : model.run.kernels) {
    EXPECT_EQ(kernel.libraries, std::vector<std::string>{"cublasLt"}) << kernel.name;
    EXPECT_NE(kernel.text.find("products on tensor cores: f16"), std::string::npos) << kernel.name;
  }
  for (const rt::Buffer& buffer : model.run.buffers) EXPECT_EQ(buffer.dtype, rt::ScalarType::f16);
}

// As training rounds a weight that it keeps in float32; the network reads it turned around.
TEST(HalfBetweenKernels, WeightsThatAreRoundedAreStoredSo) {
  Graph g;
  Var *x = g.add_input("x", Type{TypeKind::tensor, DType::f16, {48, 40}}),
      *w = g.add_input("w", Type{TypeKind::tensor, DType::f32, {64, 40}});
  Var* rounded = transpose(g, cast(g, cast(g, w, DType::f16), DType::f32), {1, 0});
  g.outputs = {cast(g, matmul(g, cast(g, x, DType::f32), rounded), DType::f16)};
  const CompiledModel model = compiled(g);
  ASSERT_EQ(model.run.kernels.size(), 2u);
  EXPECT_EQ(model.run.kernels[1].libraries, std::vector<std::string>{"cublasLt"});
  int wide = 0;
  for (const rt::Buffer& buffer : model.run.buffers) wide += buffer.dtype == rt::ScalarType::f32;
  EXPECT_EQ(wide, 1);  // w
}

}  // namespace
}  // namespace metac::half_between_kernels_test
