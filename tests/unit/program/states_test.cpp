// States: which pairs names tell, how each is kept, what cannot be one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/ops/lower_model.h"
#include "compiler/program/compile.h"
#include "compiler/support/diagnostic.h"
#include "frontends/json/json.h"

namespace metac::states_test {
namespace {

using ::testing::HasSubstr;

// A cache [2, past, 3] and new steps [2, steps, 3], put together along `axis`; a value of one shape beside it.
Model cache_model(int cache_axis = 1, const char* cache = R"([2, "past", 3])", const char* steps = R"([2, "steps", 3])") {
  return read_json_model(concat(R"json({"metac_ir": 1, "opset": 17,
    "inputs": [{"name": "past_key_values.0.key", "dtype": "float32", "shape": )json",
                                cache, R"json(}, {"name": "x", "dtype": "float32", "shape": )json", steps, R"json(},
               {"name": "h", "dtype": "float32", "shape": [4]}],
    "nodes": [{"op": "Concat", "inputs": ["past_key_values.0.key", "x"], "outputs": ["present.0.key"],
               "attributes": {"axis": )json",
                                cache_axis, R"json(}},
              {"op": "ReduceSum", "inputs": ["present.0.key"], "outputs": ["y"], "attributes": {"keepdims": 0}},
              {"op": "Add", "inputs": ["h", "y"], "outputs": ["hn"]}],
    "outputs": ["present.0.key", "hn", "y"]})json"),
                         "cache.json");
}

std::string why_not(const Model& model, std::vector<StateNames> states) {
  LowerOptions options;
  options.states = std::move(states);
  try {
    lower_model(model, options);
  } catch (const CompileError& error) {
    return error.diagnostic.message;
  }
  return "";
}

const std::vector<StateNames> both = {{"past_key_values.0.key", "present.0.key"}, {"h", "hn"}};

TEST(States, NamesTellPairs) { EXPECT_EQ(known_states(cache_model()), both); }

TEST(States, ACacheGrowsInItsPlace) {
  LowerOptions options;
  options.states = both;
  const auto g = lower_model(cache_model(), options);
  ASSERT_EQ(g->states.size(), 2u);
  EXPECT_EQ(g->states[0].axis, 1);
  EXPECT_GE(g->states[0].capacity, 0);
  EXPECT_EQ(g->states[1].axis, -1);
  EXPECT_EQ(g->states[1].capacity, -1);
  // Behind what the caller gives and gets.
  EXPECT_EQ(g->inputs[0]->name, "x");
  EXPECT_EQ(g->inputs[g->states[0].input]->name, "past_key_values.0.key");
  EXPECT_EQ(g->output_names, (std::vector<std::string>{"y", "present.0.key", "hn"}));
}

// Two rows of the last run come behind the others: as many as before, though the sum of both parts does not say so. What
// another input says of the dim goes before that; a dim of the state alone may grow.
TEST(States, ADimThatAnotherInputTellsDoesNotGrow) {
  for (const auto& [dims, axis] : {std::pair(R"(["n", 3])", -1), {R"(["m", 3])", 0}}) {
    const Model model = read_json_model(concat(R"json({"metac_ir": 1, "opset": 17,
      "inputs": [{"name": "s", "dtype": "float32", "shape": ["n", 3]}, {"name": "x", "dtype": "float32", "shape": )json",
                                               dims, R"json(}],
      "nodes": [{"op": "Slice", "inputs": ["s", "two", "end"], "outputs": ["rest"]},
                {"op": "Slice", "inputs": ["s", "zero", "two"], "outputs": ["first"]},
                {"op": "Concat", "inputs": ["rest", "first"], "outputs": ["next"], "attributes": {"axis": 0}},
                {"op": "Neg", "inputs": ["x"], "outputs": ["y"]}],
      "parameters": [{"name": "zero", "dtype": "int64", "shape": [1], "data": [0]},
                     {"name": "two", "dtype": "int64", "shape": [1], "data": [2]},
                     {"name": "end", "dtype": "int64", "shape": [1], "data": [2147483647]}],
      "outputs": ["next", "y"]})json"),
                                        "rolled.json");
    LowerOptions options;
    options.states = {{"s", "next"}};
    EXPECT_EQ(lower_model(model, options)->states[0].axis, axis) << dims;
  }
}

TEST(States, NoKernelWritesTheOldPart) {
  LowerOptions options;
  options.states = {both[0]};
  const auto g = lower_model(cache_model(), options);
  const CompiledProgram program = compile_graph(*g, {}).run;
  ASSERT_EQ(program.states.size(), 1u);
  const auto root = [&](int buffer) {
    while (program.buffers[static_cast<size_t>(buffer)].kind == rt::BufferKind::view)
      buffer = program.buffers[static_cast<size_t>(buffer)].index;
    return buffer;
  };
  const int cache = program.inputs[static_cast<size_t>(program.states[0].input)].buffer;
  EXPECT_EQ(root(program.outputs[static_cast<size_t>(program.states[0].output)].buffer), cache);
  int writes = 0;
  for (const rt::Step& s : program.steps) {
    EXPECT_NE(s.kind, rt::StepKind::copy);
    for (int k = 0; k < s.count; ++k)
      if (root(program.operands[static_cast<size_t>(s.first + k)]) == cache && ((s.element >> k) & 1)) {
        ++writes;
        bool of_the_new_part = true;  // as many iterations as there are new steps, or fewer
        for (int i = 0; i < s.parallel.length; ++i) {
          const rt::Instruction& in = program.code[static_cast<size_t>(s.parallel.value + i)];
          if (in.code == rt::Code::symbol) of_the_new_part &= program.symbols[static_cast<size_t>(in.value)].name == "steps";
        }
        EXPECT_TRUE(of_the_new_part);
      }
  }
  EXPECT_EQ(writes, 1);
}

TEST(States, WhatCannotBeOne) {
  EXPECT_THAT(why_not(cache_model(), {{"past", "hn"}}), HasSubstr("has no input \"past\""));
  EXPECT_THAT(why_not(cache_model(), {{"h", "present"}}), HasSubstr("has no output \"present\""));
  EXPECT_THAT(why_not(cache_model(), {{"h", "hn"}, {"x", "hn"}}), HasSubstr("one state alone"));
  EXPECT_THAT(why_not(cache_model(), {{"h", "present.0.key"}}), HasSubstr("float32[4]"));
  EXPECT_THAT(why_not(cache_model(1, "[2, 5, 3]"), both), HasSubstr("open"));
}

}  // namespace
}  // namespace metac::states_test
