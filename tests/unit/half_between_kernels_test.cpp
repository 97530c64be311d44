// Values of half types that go from one kernel of a GPU to the next stay half in memory, whatever is computed in float32 on the way: so the
// next product has operands that tensor cores and libraries take.
#include <gtest/gtest.h>

#include "compiler/ir/builders.h"
#include "compiler/jit/cpu_target.h"
#include "compiler/passes/compile.h"

namespace metac {
namespace {

// As operators of half types are lowered: in float32, and rounded.
Var* product(Graph& g, Var* a, Var* b) { return cast(g, matmul(g, cast(g, a, DType::f32), cast(g, b, DType::f32)), DType::f16); }
Var* in_float(Graph& g, Fn fn, Var* x) { return cast(g, map(g, fn, cast(g, x, DType::f32)), DType::f16); }

TEST(HalfBetweenKernels, ProductsReadWhatTheirProducersRounded) {
  Graph g;
  Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f16, {48, 40}});
  const auto weight = [&](const char* name, int64_t rows) { return g.add_input(name, Type{TypeKind::tensor, DType::f16, {rows, 64}}); };
  Var* first = in_float(g, Fn::exp, product(g, x, weight("v", 40)));
  // One reader and two, one function and several, a sum with an earlier value.
  Var* second = in_float(g, Fn::tanh, in_float(g, Fn::exp, map(g, Fn::add, product(g, first, weight("w", 64)), first)));
  g.outputs = {product(g, second, weight("u", 64))};
  CompileOptions options;
  options.cpu = cpu_target("native");
  options.target = Target::cuda;
  options.external.cublas = true;
  const CompiledModel model = compile_graph(g, options);
  ASSERT_EQ(model.run.kernels.size(), 3u);
  for (const KernelSource& kernel : model.run.kernels) {
    EXPECT_EQ(kernel.libraries, std::vector<std::string>{"cublasLt"}) << kernel.name;
    EXPECT_NE(kernel.text.find("products on tensor cores: f16"), std::string::npos) << kernel.name;
  }
  for (const rt::Buffer& buffer : model.run.buffers) EXPECT_EQ(buffer.dtype, rt::ScalarType::f16);
}

}  // namespace
}  // namespace metac
