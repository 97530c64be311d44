// What is a sum of products, and which axes, factors and windows it has.
#include "compiler/tensor/sum_of_products.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/ops/lower_model.h"
#include "compiler/region/fusion/fuse.h"
#include "compiler/tensor/contraction.h"
#include "frontends/json/json.h"

namespace metac::sum_of_products_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Expr at(std::vector<Expr> indices, int var = 0, DType dtype = DType::f32) { return load(var, dtype, std::move(indices)); }
Expr zero() { return float_constant(0, DType::f32); }

// The definitions that a model's results and what they need are fused to; the graph stays with them.
struct Fused {
  std::unique_ptr<Graph> graph;
  std::vector<Definition> definitions;
};

Fused fused(const std::string& json, bool free_widening = false) {
  Fused f{lower_model(read_json_model(json, "sums.json"), {}), {}};
  Needed needed;
  needed.in_memory.insert(f.graph->outputs.begin(), f.graph->outputs.end());
  needed.own_memory = needed.in_memory;
  const auto is_constant = [](const Var* v) { return v->constant.has_value(); };
  const FusedRegion region = fuse(f.graph->ops, needed, is_constant, f.graph->symbols, Fusion::best, free_widening);
  for (const Item& item : region.items)
    for (const Definition& d : item.group.stages) f.definitions.push_back(d);
  return f;
}

std::string model(const std::string& inputs, const std::string& nodes, const std::string& outputs = R"("y")") {
  return R"({"metac_ir": 1, "opset": {"": 17, "ai.onnx.preview.training": 1}, "inputs": [)" + inputs + R"(], "nodes": [)" +
         nodes + R"(], "outputs": [)" + outputs + "]}";
}
std::string value(const std::string& name, const std::string& shape, const std::string& dtype = "float32") {
  return R"({"name": ")" + name + R"(", "dtype": ")" + dtype + R"(", "shape": )" + shape + "}";
}

// The one sum of products of a model; the first result where it is none.
std::shared_ptr<const SumOfProducts> only_sum(const Fused& f) {
  std::shared_ptr<const SumOfProducts> found;
  for (const Definition& d : f.definitions)
    if (auto s = sum_of_products(d)) {
      EXPECT_FALSE(found) << to_string(d);
      found = s;
    }
  return found;
}
std::string only_text(const std::string& json) {
  const Fused f = fused(json);
  const auto s = only_sum(f);
  return s ? to_string(*s) : "none";
}

std::vector<std::string> sums(const Fused& f) {
  std::vector<std::string> out;
  for (const Definition& d : f.definitions)
    if (auto s = sum_of_products(d)) out.push_back(to_string(*s));
  return out;
}

// The sums of a convolution of `x` and `w`, and of its gradient by one of them.
std::vector<std::string> convolution(const std::string& x, const std::string& w, const std::string& attributes,
                                     const std::string& by = "") {
  const std::string nodes =
      R"json({"op": "Conv", "inputs": ["x", "w"], "outputs": ["y"], "attributes": {)json" + attributes + "}}";
  const std::string gradient = R"json(, {"op": "elementwise", "inputs": ["y"], "outputs": ["z"], "body": "exp(y)"},
    {"op": "sum", "inputs": ["z"], "outputs": ["loss"]},
    {"op": "Gradient", "domain": "ai.onnx.preview.training", "inputs": [")json" +
                               by + R"json("], "outputs": ["d"], "attributes": {"xs": [")json" + by +
                               R"json("], "y": "loss"}})json";
  return sums(fused(
      model(value("x", x) + "," + value("w", w), by.empty() ? nodes : nodes + gradient, by.empty() ? "\"y\"" : "\"d\"")));
}

TEST(SumOfProducts, MatrixProducts) {
  EXPECT_EQ(only_text(model(value("a", "[30, 40]") + "," + value("b", "[40, 50]"),
                            R"({"op": "MatMul", "inputs": ["a", "b"], "outputs": ["y"]})")),
            "rows 0, columns 1, steps 2");
  EXPECT_EQ(only_text(model(value("a", "[3, 30, 40]") + "," + value("b", "[3, 40, 50]"),
                            R"({"op": "MatMul", "inputs": ["a", "b"], "outputs": ["y"]})")),
            "batch 0, rows 1, columns 2, steps 3");
  EXPECT_EQ(only_text(model(value("a", "[3, 30, 40]") + "," + value("b", "[40, 50]"),
                            R"({"op": "MatMul", "inputs": ["a", "b"], "outputs": ["y"]})")),
            "rows 0 1, columns 2, steps 3");
}

TEST(SumOfProducts, Einsum) {
  EXPECT_EQ(
      only_text(model(
          value("a", "[2, 3, 5, 7]") + "," + value("b", "[3, 7, 2, 11]"),
          R"({"op": "Einsum", "inputs": ["a", "b"], "outputs": ["y"], "attributes": {"equation": "abcd,bdae->cea"}})")),
      "batch 2, rows 0, columns 1, steps 3 4");
}

TEST(SumOfProducts, OpenDims) {
  const std::string a = R"({"name": "a", "dtype": "float32", "shape": ["n", 64, "k"]})",
                    b = R"({"name": "b", "dtype": "float32", "shape": ["n", "k", "m"]})";
  EXPECT_EQ(only_text(model(a + "," + b, R"({"op": "MatMul", "inputs": ["a", "b"], "outputs": ["y"]})")),
            "batch 0, rows 1, columns 2, steps 3");
  const std::string x = R"({"name": "x", "dtype": "float32", "shape": ["n", 3, "h", "w"]})";
  EXPECT_EQ(
      only_text(model(
          x + "," + value("w", "[8, 3, 3, 3]"),
          R"({"op": "Conv", "inputs": ["x", "w"], "outputs": ["y"], "attributes": {"strides": [2, 2], "pads": [1, 1, 1, 1]}})")),
      "rows 0 2 3, columns 1, steps 4 5 6, first[2] = i2*2 + i5 + -1, first[3] = i3*2 + i6 + -1");
}

TEST(SumOfProducts, Convolutions) {
  EXPECT_THAT(convolution("[2, 6, 9, 9]", "[8, 6, 3, 3]", ""),
              ElementsAre("rows 0 2 3, columns 1, steps 4 5 6, first[2] = i2 + i5, first[3] = i3 + i6"));
  EXPECT_THAT(convolution("[2, 6, 9, 9]", "[8, 6, 3, 3]", R"("strides": [2, 3], "dilations": [2, 1])"),
              ElementsAre("rows 0 2 3, columns 1, steps 4 5 6, first[2] = i2*2 + i5*2, first[3] = i3*3 + i6"));
  // A group is an axis of its own, in both.
  EXPECT_THAT(convolution("[2, 6, 9, 9]", "[8, 3, 3, 3]", R"("group": 2)"),
              ElementsAre(testing::HasSubstr("batch 1, rows 0 3 4, columns 2, steps 5 6 7, first[1]")));
}

// Every channel a group of one filter: axis 2 has extent 1, and nobody here asks for extents.
TEST(SumOfProducts, DepthwiseConvolutions) {
  EXPECT_THAT(convolution("[2, 6, 9, 9]", "[6, 1, 3, 3]", R"("group": 6)"),
              ElementsAre(testing::HasSubstr("batch 1, rows 0 3 4, columns 2, steps 5 6 7")));
}

// What is gathered through a stride has its own taps for each residue: both factors read it, at quotients and at rests.
TEST(SumOfProducts, GradientsOfConvolutions) {
  const auto by_data = convolution("[2, 6, 9, 9]", "[8, 6, 3, 3]", "", "x");
  ASSERT_EQ(by_data.size(), 2u);  // forward, and this
  EXPECT_THAT(by_data[1], testing::HasSubstr("rows 0 2 3, columns 1, steps 4 5 6"));
  const auto strided = convolution("[2, 6, 9, 9]", "[8, 6, 3, 3]", R"("strides": [2, 2])", "x");
  ASSERT_EQ(strided.size(), 2u);
  EXPECT_THAT(strided[1], testing::HasSubstr("batch 2 3, rows 0, columns 1, steps 4 5 6"));
  EXPECT_THAT(strided[1], testing::HasSubstr("floor_div"));
  const auto by_weights = convolution("[2, 6, 9, 9]", "[8, 6, 3, 3]", R"("dilations": [2, 2])", "w");
  ASSERT_EQ(by_weights.size(), 2u);
  EXPECT_THAT(by_weights[1], testing::AnyOf(testing::HasSubstr("rows 0, columns 1 2 3, steps 4 5 6"),
                                            testing::HasSubstr("rows 1 2 3, columns 0, steps 4 5 6")));
}

TEST(SumOfProducts, TransposedConvolutions) {
  const auto transposed = [](const std::string& attributes) {
    return only_text(
        model(value("x", "[2, 8, 4, 4]") + "," + value("w", "[8, 6, 3, 3]"),
              R"({"op": "ConvTranspose", "inputs": ["x", "w"], "outputs": ["y"], "attributes": {)" + attributes + "}}"));
  };
  EXPECT_THAT(transposed(""), testing::HasSubstr("rows 0 3 4, columns 2, steps 5 6 7"));
  EXPECT_THAT(transposed(R"("strides": [2, 2])"), testing::HasSubstr("batch 1 3 4, rows 0, columns 2, steps 5 6 7"));
}

TEST(SumOfProducts, AttentionsTwoProducts) {
  const Fused f =
      fused(model(value("q", "[2, 4, 64, 32]") + "," + value("k", "[2, 4, 32, 64]") + "," + value("v", "[2, 4, 64, 48]"),
                  R"({"op": "MatMul", "inputs": ["q", "k"], "outputs": ["s"]},
      {"op": "Softmax", "inputs": ["s"], "outputs": ["p"], "attributes": {"axis": -1}},
      {"op": "MatMul", "inputs": ["p", "v"], "outputs": ["y"]})"));
  EXPECT_THAT(sums(f), ElementsAre("batch 0 1, rows 2, columns 3, steps 4", "batch 0 1, rows 2, columns 3, steps 4"));
}

// ---- factors ----
// Over axes 0, 1 of the result and 2, the sum.
const Expr a_ = at({axis(0), axis(2)}), b_ = at({axis(2), axis(1)}, 1);

TEST(SumOfProducts, ConditionsOfFactorsAndOfProducts) {
  const Expr left = Expr(0) <= axis(0) + axis(2) - Expr(1), right = axis(0) + axis(2) < Expr(9), causal = axis(2) < axis(1);
  const auto s = sum_of_products(select(causal, select(logical_and(left, right), a_, zero()) * b_, zero()), 2, 3);
  ASSERT_TRUE(s);
  EXPECT_THAT(s->factors[0].conditions, testing::UnorderedElementsAre(left, right));
  EXPECT_EQ(s->factors[0].load, a_);
  EXPECT_TRUE(s->factors[0].is_element());
  EXPECT_THAT(s->factors[1].conditions, IsEmpty());
  EXPECT_THAT(s->conditions, ElementsAre(causal));
  EXPECT_FALSE(s->is_bare());
  EXPECT_THAT(s->rows, ElementsAre(0));
}

// Where a condition on a product does not hold, either factor may be read beyond its end, and a zero times that need not be
// a zero.
TEST(SumOfProducts, ConditionsOnAProductGuardAllWhoseIndexTheyBound) {
  const Expr place = axis(0) + axis(2), inside = place < Expr(4), of_one = axis(1) < Expr(3);
  Definition d;
  d.domain = {5, 6, 2};
  d.reduced = 1;
  d.reduce = Reduce::add;
  d.accumulator = DType::f32;
  d.body = select(logical_and(inside, of_one), at({place}) * at({axis(1), place}, 1), zero());
  const auto c = contraction_of(d);
  ASSERT_TRUE(c);
  EXPECT_THAT(c->a.conditions, ElementsAre(inside));
  EXPECT_THAT(c->b.conditions, testing::UnorderedElementsAre(inside, of_one));
  EXPECT_EQ(sum_of_products(c->guarded_body(), 2, 3)->factors[1].conditions.size(), 2u);
}

TEST(SumOfProducts, ConditionsCountAmongTheAxesOfAFactor) {  // a mask by position
  const auto s = sum_of_products(select(axis(2) <= axis(0), at({axis(2)}), zero()) * b_, 2, 3);
  ASSERT_TRUE(s);
  EXPECT_EQ(to_string(*s), "rows 0, columns 1, steps 2");
}

TEST(SumOfProducts, ConversionsFromTheElementOutwards) {
  const Expr half = at({axis(0), axis(2)}, 0, DType::f16);
  const auto s = sum_of_products(cast(cast(half, DType::f32) * b_, DType::f64), 2, 3);
  ASSERT_TRUE(s);
  EXPECT_THAT(s->factors[0].conversions, ElementsAre(DType::f32));
  EXPECT_EQ(s->factors[0].load, half);
  EXPECT_EQ(s->factors[0].narrow, half);
  EXPECT_FALSE(s->factors[1].narrow);
  EXPECT_THAT(s->conversions, ElementsAre(DType::f64));
  const Expr condition = axis(2) < Expr(5), rounded = cast(cast(at({axis(2), axis(1)}, 1), DType::bf16), DType::f32);
  const auto t = sum_of_products(a_ * select(condition, rounded, zero()), 2, 3);
  EXPECT_THAT(t->factors[1].conversions, ElementsAre(DType::bf16, DType::f32));
  EXPECT_EQ(t->factors[1].narrow, select(condition, rounded->args[0], float_constant(0, DType::bf16)));
}

// float32(int32(byte) - zero) * scale, where a border is filled with the zero point.
TEST(SumOfProducts, QuantisedFactors) {
  const Expr byte = at({axis(0), axis(2)}, 0, DType::u8), scale = at({axis(1)}, 2), inside = axis(2) < Expr(7);
  const Expr seven = int_constant(7, DType::i32);
  for (const bool border : {false, true}) {
    const Expr stored = border ? select(inside, byte, int_constant(7, DType::u8)) : byte;
    const auto s = sum_of_products(cast(cast(stored, DType::i32) - seven, DType::f32) * float_constant(0.5, DType::f32) *
                                       (cast(at({axis(2), axis(1)}, 1, DType::i8), DType::f32) * scale),
                                   2, 3);
    ASSERT_TRUE(s);
    EXPECT_EQ(s->factors[0].load, byte);
    EXPECT_TRUE(s->factors[0].zero_point.is_int(7));
    EXPECT_EQ(s->factors[0].scale, float_constant(0.5, DType::f32));
    EXPECT_THAT(s->factors[0].conversions, ElementsAre(DType::i32, DType::f32));
    EXPECT_EQ(s->factors[0].conditions.size(), border ? 1u : 0u);
    EXPECT_EQ(s->factors[0].outside, 0);
    EXPECT_EQ(s->factors[1].scale, scale);
    EXPECT_FALSE(s->factors[1].is_element());
  }
  // With something else there it is not known as an element.
  const auto other = sum_of_products((cast(select(inside, byte, int_constant(3, DType::u8)), DType::i32) - seven) *
                                         cast(at({axis(2), axis(1)}, 1, DType::i8), DType::i32),
                                     2, 3);
  ASSERT_TRUE(other);
  EXPECT_FALSE(other->factors[0].load);
}

TEST(SumOfProducts, ZeroPointsOfQuantisedModels) {
  const Fused f =
      fused(model(value("x", "[5, 70]", "uint8") + "," + value("w", "[70, 64]", "int8") + "," + value("zero", "[]", "uint8"),
                  R"({"op": "MatMulInteger", "inputs": ["x", "w", "zero"], "outputs": ["y"]})"),
            true);
  const auto s = only_sum(f);
  ASSERT_TRUE(s);
  EXPECT_EQ(to_string(*s), "rows 0, columns 1, steps 2");
}

TEST(SumOfProducts, Words) {
  const Expr words = at({axis(0), axis(2)}, 0, DType::i32), filled = int_constant(0x07070707, DType::i32),
             inside = axis(0) < Expr(5);
  const auto s =
      sum_of_products(call(Fn::dot_u8s8, {select(inside, words, filled), at({axis(2), axis(1)}, 1, DType::i32)}), 2, 3);
  ASSERT_TRUE(s);
  EXPECT_TRUE(s->of_words());
  EXPECT_EQ(products_in_a_point(s->product), 4);
  EXPECT_EQ(s->factors[0].outside, 0x07070707);
  EXPECT_THAT(s->factors[0].conditions, ElementsAre(inside));
}

TEST(SumOfProducts, ComputedFactorsHaveNoElement) {
  const auto s = sum_of_products(call(Fn::exp, {a_}) * b_, 2, 3);
  ASSERT_TRUE(s);
  EXPECT_FALSE(s->factors[0].load);
  EXPECT_EQ(s->factors[0].value, call(Fn::exp, {a_}));
  EXPECT_EQ(to_string(*s), "rows 0, columns 1, steps 2");
  const auto gathered = sum_of_products(at({at({axis(2)}, 5, DType::i64), axis(0)}) * b_, 2, 3);
  ASSERT_TRUE(gathered);
  EXPECT_FALSE(gathered->factors[0].load);  // read where data say
}

TEST(SumOfProducts, WindowsWithStridesAndOffsetsThatAreOpen) {
  const Expr stride = symbol(0), before = symbol(1);
  const auto s = sum_of_products(at({axis(0) * stride + axis(1) * Expr(2) - before}) * at({axis(1)}, 1), 1, 2);
  ASSERT_TRUE(s);
  ASSERT_EQ(s->windows.size(), 1u);
  const WindowOfSum& w = s->windows[0];
  EXPECT_EQ(w.factor, 0);
  ASSERT_EQ(w.points.size(), 1u);
  ASSERT_EQ(w.taps.size(), 1u);
  EXPECT_EQ(w.points[0].axis, 0);
  EXPECT_EQ(w.points[0].step, stride);
  EXPECT_TRUE(w.taps[0].step.is_int(2));
  EXPECT_EQ(w.offset, Expr(0) - before);
}

TEST(SumOfProducts, AnAxisOfOneFactorAlone) {  // a sum of it that could be taken before
  const auto s = sum_of_products(at({axis(0), axis(1), axis(2)}) * at({axis(1)}, 1), 1, 3);
  ASSERT_TRUE(s);
  EXPECT_EQ(to_string(*s), "rows 0, steps 1, row steps 2");
}

// Channels are weighted outside of their sums; a sum of differences is a difference of sums.
TEST(SumOfProducts, TermsWithoutWhatIsTheSameAlongTheSum) {
  const Expr scale = at({axis(1)}, 7), c = at({axis(2)}, 8);
  Definition d;
  d.reduce = Reduce::add;
  d.domain = {4, 5, 6};
  d.reduced = 1;
  const auto loads = [&](Expr body) {
    d.body = body;
    std::vector<Expr> out;
    for (const auto& s : sums_of_terms(d)) out.push_back(s->factors[0].load);
    return out;
  };
  EXPECT_THAT(loads((a_ * b_) * scale), ElementsAre(a_));
  EXPECT_THAT(loads(-(a_ * b_ / scale)), ElementsAre(a_));
  EXPECT_THAT(loads(a_ * b_ - c * b_), testing::UnorderedElementsAre(a_, c));
  EXPECT_THAT(loads(a_ * scale), IsEmpty());
  EXPECT_THAT(loads(call(Fn::exp, {a_ * b_})), IsEmpty());
}

// ---- what is none ----
TEST(SumOfProducts, OthersAreNone) {
  for (Expr body : {a_, a_ + b_, call(Fn::exp, {a_ * b_}), select(axis(0) < axis(2), a_ * b_, float_constant(1, DType::f32)),
                    call(Fn::max, {a_, b_})})
    EXPECT_FALSE(sum_of_products(body, 2, 3)) << to_string(body);
  Definition d;
  d.domain = {4, 5, 6};
  d.reduced = 1;
  d.body = a_ * b_;
  EXPECT_FALSE(sum_of_products(d));  // nothing is summed
  for (Reduce reduce : {Reduce::mul, Reduce::max, Reduce::logical_and}) {
    d.reduce = reduce;
    EXPECT_FALSE(sum_of_products(d));
  }
  d.reduce = Reduce::add;
  EXPECT_TRUE(sum_of_products(d));
}

TEST(SumOfProducts, ScattersKeepWhatDecidesAboutThePlace) {
  Definition d;
  d.reduce = Reduce::add;
  d.scatter = true;
  d.domain = {4, 5, 6};
  d.body = at({axis(0), axis(1)}) * at({axis(1), axis(2)}, 1);
  d.out_index = {axis(0) * Expr(3) + axis(2) * Expr(2)};
  const auto s = sum_of_products(d);
  ASSERT_TRUE(s);
  EXPECT_EQ(to_string(*s), "rows 0, columns 2, steps 1");
}

// A body is taken apart once, and one that was edited is another.
TEST(SumOfProducts, IsFoundOnce) {
  Definition d;
  d.reduce = Reduce::add;
  d.domain = {4, 5, 6};
  d.reduced = 1;
  d.body = at({axis(0), axis(2)}, 901) * at({axis(2), axis(1)}, 902);
  const int64_t before = recognised_sums_of_products();
  const auto first = sum_of_products(d);
  const Definition copy = d;
  EXPECT_EQ(sum_of_products(copy), first);
  EXPECT_EQ(sum_of_products(d), first);
  EXPECT_EQ(recognised_sums_of_products(), before + 1);
  replace_loads(d, 901, [](const std::vector<Expr>& indices) { return at(indices, 903); });
  EXPECT_EQ(sum_of_products(d)->factors[0].load->id, 903);
  permute_axes(d, {1, 0, 2});
  EXPECT_EQ(to_string(*sum_of_products(d)), "rows 1, columns 0, steps 2");
  EXPECT_EQ(recognised_sums_of_products(), before + 3);
  EXPECT_EQ(first->factors[0].load->id, 901);
}

}  // namespace
}  // namespace metac::sum_of_products_test
