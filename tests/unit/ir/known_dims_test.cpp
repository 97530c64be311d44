// What requirements say of open dims: sizes that no run can have are left out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/ops/lower_model.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/program/compile.h"
#include "compiler/support/diagnostic.h"
#include "frontends/json/json.h"
#include "tests/unit/ramp.h"

namespace metac::known_dims_test {
namespace {

// A map, halved and doubled again, beside itself: added where `joined` is Add, else behind its channels.
std::unique_ptr<Graph> halved_and_doubled(const char* joined, const char* kernel = "2, 2") {
  return lower_model(
      read_json_model(concat(R"json({"metac_ir": 1, "opset": 17,
    "inputs": [{"name": "x", "dtype": "float32", "shape": [1, 4, "h", "w"]}],
    "parameters": [{"name": "scales", "dtype": "float32", "shape": [4], "data": [1, 1, 2, 2]}],
    "nodes": [{"op": "MaxPool", "inputs": ["x"], "outputs": ["p"],
               "attributes": {"kernel_shape": [)json",
                             kernel, R"json(], "strides": [2, 2]}},
              {"op": "Resize", "inputs": ["p", "", "scales"], "outputs": ["u"], "attributes": {"mode": "nearest"}},
              {"op": ")json",
                             joined, R"json(", "inputs": ["x", "u"], "outputs": ["y"])json",
                             std::string_view(joined) == "Concat" ? R"json(, "attributes": {"axis": 1})json" : "", R"json(}],
    "outputs": ["y"]})json"),
                      "pyramid.json"),
      {});
}

const Symbol& named(const Graph& g, const std::string& name) {
  for (const Symbol& s : g.symbols)
    if (s.name == name) return s;
  ADD_FAILURE() << "no symbol " << name;
  return g.symbols[0];
}

TEST(KnownDims, NoRunHasFewerRowsThanAWindow) {
  const auto g = halved_and_doubled("Add");
  EXPECT_EQ(named(*g, "h").min, 2);
  EXPECT_EQ(named(*g, "h").stated_min(), 1);
}

TEST(KnownDims, NeitherOfTwoSizesIsReadAsOne) {
  const auto g = halved_and_doubled("Add");
  const Shape& x = g->inputs[0]->shape();
  const Shape& y = g->outputs[0]->shape();
  EXPECT_TRUE(y[2] == x[2] && y[3] == x[3]) << to_string(y);
}

// The knowledge replaces no check: an odd size, or one below the window, is refused with the words of the node's own check.
TEST(KnownDims, WhatTheyComeFromIsStillChecked) {
  for (const char* joined : {"Add", "Concat"}) {
    const auto g = halved_and_doubled(joined);
    EXPECT_EQ(evaluate(*g, {ramp({1, 4, 6, 8}, 5)})[0].shape[2], 6);
    EXPECT_THROW(evaluate(*g, {ramp({1, 4, 7, 8}, 5)}), CompileError) << joined;
    try {
      evaluate(*g, {ramp({1, 4, 6, 1}, 5)});
      ADD_FAILURE() << "a window of two columns on one";
    } catch (const CompileError& e) {
      EXPECT_THAT(e.diagnostic.message, testing::HasSubstr("the kernel spans 2"));
    }
  }
}

// A window of one row: a map of one row may be added to one of two, and is.
TEST(KnownDims, WhatMayBroadcastDoes) {
  const auto g = halved_and_doubled("Add", "1, 1");
  EXPECT_EQ(named(*g, "h").min, 1);
  EXPECT_EQ(evaluate(*g, {ramp({1, 4, 1, 2}, 5)})[0].shape[2], 2);
  EXPECT_EQ(evaluate(*g, {ramp({1, 4, 4, 2}, 5)})[0].shape[2], 4);
}

// An exporter wrote its batch of 1 into a Reshape, and what comes of it stands beside what has the batch: that is 1 for all
// kernels, and a run with another one hears what is wrong.
TEST(KnownDims, ABatchThatCanOnlyBeOneIsOne) {
  const auto g = lower_model(read_json_model(R"json({"metac_ir": 1, "opset": 17,
      "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 8, "w"]}],
      "parameters": [{"name": "shape", "dtype": "int64", "shape": [3], "data": [1, 8, -1]}],
      "nodes": [{"op": "Reshape", "inputs": ["x", "shape"], "outputs": ["r"]},
                {"op": "Concat", "inputs": ["r", "x"], "outputs": ["y"], "attributes": {"axis": 1}}],
      "outputs": ["y"]})json",
                                             "written_batch.json"),
                             {});
  EXPECT_TRUE(g->outputs[0]->shape() == (Shape{1, 16, g->inputs[0]->shape()[2]})) << to_string(g->outputs[0]->shape());
  EXPECT_EQ(g->inputs[0]->shape()[0]->kind, ExprKind::symbol);
  const Tensor x = ramp({1, 8, 5}, 5), y = evaluate(*g, {x})[0];
  ASSERT_EQ(y.shape, (std::vector<int64_t>{1, 16, 5}));
  for (int64_t k = 0; k < 80; ++k) EXPECT_EQ(number_at(y, k), number_at(x, k % 40));
  EXPECT_THROW(evaluate(*g, {ramp({2, 8, 5}, 5)}), CompileError);
}

// Where something is put behind an input it may have no elements, and so may a batch; a range that somebody gives stays.
TEST(KnownDims, ACacheMayBeEmpty) {
  const auto lowered = [](const LowerOptions& options) {
    return lower_model(read_json_model(R"json({"metac_ir": 1, "opset": 17,
      "inputs": [{"name": "cache", "dtype": "float32", "shape": ["batch", "past", 3]},
                 {"name": "x", "dtype": "float32", "shape": ["batch", "steps", 3]}],
      "nodes": [{"op": "Concat", "inputs": ["cache", "x"], "outputs": ["y"], "attributes": {"axis": 1}}],
      "outputs": ["y"]})json",
                                       "cache.json"),
                       options);
  };
  const auto g = lowered({});
  EXPECT_EQ(named(*g, "past").min, 0);
  EXPECT_EQ(named(*g, "steps").min, 1);
  EXPECT_EQ(named(*g, "batch").min, 0) << "an axis that an input has first";
  const Tensor x = ramp({2, 1, 3}, 5);
  const std::vector<Tensor> inputs = {ramp({2, 0, 3}, 5), x};
  EXPECT_EQ(evaluate(*g, inputs)[0].shape, x.shape);
  LowerOptions ranged;
  ranged.dims["past"] = {.name = "past", .min = 2, .max = 9};
  EXPECT_EQ(named(*lowered(ranged), "past").min, 2);
}

}  // namespace
}  // namespace metac::known_dims_test
