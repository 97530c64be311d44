// Concatenations that are rounded to bytes.
#include "compiler/passes/round_parts.h"

#include <gtest/gtest.h>

#include "compiler/ir/builders.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/passes/remove_dead_ops.h"
#include "compiler/support/diagnostic.h"
#include "tests/unit/ramp.h"

namespace metac::round_parts_test {
namespace {

Var* rounded(Graph& g, Var* x, Var* scale) {
  return elementwise(g, {x, scale}, [](const std::vector<Expr>& v) {
    const Expr whole = call(Fn::rint, {v[0] / v[1]}) + float_constant(9, DType::f32);
    return cast(min(max(whole, float_constant(0, DType::f32)), float_constant(255, DType::f32)), DType::u8);
  });
}

// Concatenations of float32 that are left where `parts` channels of each come together and are rounded.
int wide_concatenations(const std::vector<int64_t>& parts, bool read_elsewhere, bool scale_of_channels) {
  Graph g;
  std::vector<Var*> all;
  std::vector<Tensor> inputs;
  int64_t channels = 0;
  for (int64_t part : parts) {
    all.push_back(g.add_input(concat("x", part), Type{TypeKind::tensor, DType::f32, {2, part, 5}}));
    inputs.push_back(ramp({2, part, 5}, part));
    channels += part;
  }
  const Shape of_scale = scale_of_channels ? Shape{channels, 1} : Shape{};
  Var* const scale = g.add_input("scale", Type{TypeKind::tensor, DType::f32, of_scale});
  std::vector<float> scales;
  for (int64_t k = 0; k < (scale_of_channels ? channels : 1); ++k) scales.push_back(0.125f * static_cast<float>(1 + k % 3));
  inputs.push_back(make_tensor<float>(
      DType::f32, scale_of_channels ? std::vector<int64_t>{channels, 1} : std::vector<int64_t>{}, scales));
  Var* const whole = concat(g, all, 1);
  g.outputs = {rounded(g, whole, scale)};
  if (read_elsewhere) g.outputs.push_back(whole);
  const std::vector<Tensor> expected = evaluate(g, inputs);
  round_parts(g);
  remove_dead_ops(g);
  const std::vector<Tensor> found = evaluate(g, inputs);
  for (size_t n = 0; n < expected.size(); ++n)
    for (int64_t k = 0; k < expected[n].element_count(); ++k)
      EXPECT_EQ(number_at(found[n], k), number_at(expected[n], k)) << n << ", " << k;
  int wide = 0;
  for (const Op* op : g.ops)
    if (op->kind == OpKind::elementwise && op->outputs[0]->dtype() == DType::f32) ++wide;
  return wide;
}

TEST(RoundParts, PartsAreRounded) {
  EXPECT_EQ(wide_concatenations({3, 4}, false, false), 0);
  EXPECT_EQ(wide_concatenations({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, false, false), 0) << "chosen by a tree of chains";
}

TEST(RoundParts, OrNot) {
  EXPECT_EQ(wide_concatenations({3, 4}, true, false), 1) << "the concatenation is an output, too";
  EXPECT_EQ(wide_concatenations({3, 4}, false, true), 1) << "each channel has a scale of its own";
}

}  // namespace
}  // namespace metac::round_parts_test
