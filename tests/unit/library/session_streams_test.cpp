// Streams of sessions: states of each caller's own, whichever of the session's programs answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "compiler/jit/run_error.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/session/session.h"
#include "frontends/json/json.h"

namespace metac::session_streams_test {
namespace {

using ::testing::HasSubstr;

// A cache [b, past, 3] with x [b, steps, 3] put behind it, and a count h of all that was summed up; `more`: what is between
// the Concat and the cache's next value, so that it is kept otherwise.
Model cache_model(const std::string& more = "") {
  const std::string whole = more.empty() ? "present" : "whole";
  return read_json_model(concat(R"json({"metac_ir": 1, "opset": 17,
    "inputs": [{"name": "past", "dtype": "float32", "shape": ["b", "kept", 3]},
               {"name": "x", "dtype": "float32", "shape": ["b", "steps", 3]},
               {"name": "h", "dtype": "float32", "shape": ["b"]}],
    "nodes": [{"op": "Concat", "inputs": ["past", "x"], "outputs": [")json",
                                whole, R"json("], "attributes": {"axis": 1}}, )json", more, R"json(
              {"op": "ReduceSum", "inputs": ["present", "axes"], "outputs": ["y"], "attributes": {"keepdims": 0}},
              {"op": "Add", "inputs": ["h", "y"], "outputs": ["hn"]}],
    "parameters": [{"name": "axes", "dtype": "int64", "shape": [2], "data": [1, 2]}],
    "outputs": [{"name": "present", "dtype": "float32", "shape": ["b", "all", 3]}, "hn", "y"]})json"),
                         "cache.json");
}
const std::vector<StateNames> both = {{"past", "present"}, {"h", "hn"}};

SessionOptions options(Specialise specialise) {
  SessionOptions options;
  options.compile.cpu = cpu_target("native");
  options.lower.states = both;
  options.specialise = specialise;
  options.threads = 1;
  return options;
}

Tensor rows(int64_t batch, int64_t steps, float value) {
  return make_tensor<float>(DType::f32, {batch, steps, 3},
                            std::vector<float>(static_cast<size_t>(batch * steps * 3), value));
}

// What a caller expects: the sums so far.
struct Expected {
  double sum = 0, all = 0;
  int64_t length = 0;
};

void step(Stream& stream, int64_t batch, int64_t steps, float value, Expected& expected) {
  expected.sum += static_cast<double>(steps) * 3 * value, expected.all += expected.sum, expected.length += steps;
  const auto answers = stream.run({{"x", rows(batch, steps, value)}});
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].first, "y");
  ASSERT_EQ(answers[0].second.shape, (std::vector<int64_t>{batch}));
  for (int64_t b = 0; b < batch; ++b) EXPECT_EQ(answers[0].second.data<float>()[b], expected.sum);
  EXPECT_EQ(stream.get("past").shape, (std::vector<int64_t>{batch, expected.length, 3}));
  EXPECT_EQ(stream.get("h").data<float>()[0], expected.all);
}

std::string why_not(const std::function<void()>& call) {
  try {
    call();
  } catch (const CompileError& error) {
    return error.what();
  }
  return "";
}

class StreamsOf : public ::testing::TestWithParam<Specialise> {};

TEST_P(StreamsOf, GoOnWhereTheyStoppedWhateverProgramAnswers) {
  Session session(cache_model(), options(GetParam()));
  Stream one(session), two(session);
  Expected of_one, of_two;
  for (int k = 0; k < 70; ++k) {
    step(one, 1, k % 9 == 0 ? 5 : 1, 1, of_one);
    step(two, 2, 1, 2, of_two);
    if (k % 20 == 5) session.wait();
  }
  const SessionReport report = session.report();
  EXPECT_EQ(report.streams, 2);
  EXPECT_GE(report.state_bytes, (of_one.length + 2 * of_two.length) * 12);
  if (GetParam() != Specialise::never) {
    EXPECT_EQ(report.specialisations, 3);  // a program is for no length of the cache
    EXPECT_LT(report.open_runs, 40);
  }
  one.reset();
  of_one = {};
  step(one, 3, 2, 1, of_one);  // another batch
  step(two, 2, 1, 2, of_two);
}
INSTANTIATE_TEST_SUITE_P(Session, StreamsOf,
                         ::testing::Values(Specialise::background, Specialise::eager, Specialise::never));

TEST(SessionStreams, AreCutForkedAndSet) {
  Session session(cache_model(), options(Specialise::background));
  Stream stream(session);
  Expected expected;
  for (int k = 0; k < 4; ++k) step(stream, 1, 2, 1, expected);
  stream.truncate(3);
  expected.sum = 9, expected.length = 3;
  const std::unique_ptr<Stream> forked = stream.fork();
  Expected of_fork = expected;
  step(*forked, 1, 70, 2, of_fork);
  step(stream, 1, 1, 1, expected);
  // Before any run of a stream too.
  Stream other(session);
  EXPECT_EQ(other.get("past").shape, (std::vector<int64_t>{0, 0, 0}));
  other.set({{"past", rows(1, 7, 2)}, {"h", make_tensor<float>(DType::f32, {1}, std::vector<float>{5})}});
  other.truncate(2);
  EXPECT_EQ(other.get("past").shape, (std::vector<int64_t>{1, 2, 3}));
  Expected of_other{12, 5, 2};
  step(other, 1, 1, 1, of_other);
  other.set({{"past", rows(1, 4, 1)}});
  EXPECT_THAT(why_not([&] { other.truncate(5); }), HasSubstr("has 4 steps"));
  other.truncate(1);
  of_other.sum = 3, of_other.length = 1;
  step(other, 1, 1, 1, of_other);
}

TEST(SessionStreams, RunsThatFailLeaveThemAsTheyWere) {
  Session session(cache_model(), options(Specialise::background));
  Stream stream(session);
  Expected expected;
  for (int k = 0; k < 3; ++k) step(stream, 2, 2, 1, expected);
  session.wait();
  EXPECT_NE(why_not([&] { stream.run({{"x", rows(3, 1, 1)}}); }), "");  // another batch than the states have
  step(stream, 2, 2, 1, expected);
  stream.set({{"past", rows(3, 1, 1)}});
  EXPECT_NE(why_not([&] { stream.run({{"x", rows(2, 2, 1)}}); }), "");
  stream.reset();
  expected = {};
  step(stream, 2, 2, 1, expected);
}

TEST(SessionStreams, WhatIsNoStateOfThemIsRefused) {
  Session session(cache_model(), options(Specialise::never));
  Stream stream(session);
  EXPECT_THAT(why_not([&] { stream.get("x"); }), HasSubstr("there is no state \"x\""));
  EXPECT_THAT(why_not([&] {
                stream.set({{"past", make_tensor<float>(DType::f32, {3}, std::vector<float>(3))}});
              }),
              HasSubstr("float32"));
  EXPECT_THAT(why_not([&] {
                stream.set({{"past", make_tensor<float>(DType::f32, {1, 1, 4}, std::vector<float>(4))}});
              }),
              HasSubstr("dim 2 is 4, expected 3"));
  EXPECT_THAT(why_not([&] { stream.run({{"x", rows(1, 1, 1)}, {"past", rows(1, 1, 1)}}); }), HasSubstr("is a state"));
  EXPECT_THAT(why_not([&] { stream.truncate(1); }), HasSubstr("has 0 steps"));
  SessionOptions wrong = options(Specialise::never);
  wrong.lower.states = {{"past", "nowhere"}};
  EXPECT_THAT(why_not([&] { Session other(cache_model(), wrong); }), HasSubstr("no output \"nowhere\""));
}

TEST(SessionStreams, ARunWithoutOneHasStatesAtTheirBeginning) {
  Session session(cache_model(), options(Specialise::background));
  for (int k = 0; k < 4; ++k) EXPECT_EQ(session.run({{"x", rows(1, 2, 1)}})[0].second.data<float>()[0], 6);
  EXPECT_EQ(session.report().state_bytes, 0);
}

// A program that makes its cache anew keeps it without room behind it.
TEST(SessionStreams, AreMovedBetweenProgramsThatKeepThemOtherwise) {
  const auto code_of = [](const std::string& more) {
    LowerOptions lower;
    lower.states = both;
    CompileOptions compile;
    compile.cpu = cpu_target("native");
    auto compiled = std::make_shared<CompiledModel>(compile_graph(*lower_model(cache_model(more), lower), compile));
    WeightsBlock weights = run_prepare(*compiled, compiled->parameters, compile.cpu);
    return std::make_shared<const JitCode>(std::shared_ptr<const CompiledProgram>(compiled, &compiled->run),
                                           PreparedWeights(std::move(weights)), compile.cpu);
  };
  const auto grows = code_of(""), anew = code_of(R"({"op": "Relu", "inputs": ["whole"], "outputs": ["present"]},)");
  ASSERT_EQ(grows->compiled().states[0].kept, rt::StateMemory::grows);
  ASSERT_EQ(anew->compiled().states[0].kept, rt::StateMemory::two_places);
  JitProgram programs[] = {JitProgram(grows, 1), JitProgram(anew, 1)};
  rt::StateSet states;
  ASSERT_TRUE(states.create(*grows->tables()));
  rt::Failure failure;
  float sums[2] = {0, 0};
  int64_t length = 0;
  for (int k = 0; k < 12; ++k) {
    const int64_t steps = k % 3 == 0 ? 40 : 1;
    ASSERT_TRUE(states.move_to(*(k % 4 < 2 ? grows : anew)->tables(), failure)) << failure.message;
    const Tensor x = make_tensor<float>(DType::f32, {2, steps, 3}, [&] {
      std::vector<float> elements(static_cast<size_t>(2 * steps * 3), static_cast<float>(k));
      std::fill(elements.begin() + steps * 3, elements.end(), static_cast<float>(100 + k));
      return elements;
    }());
    const Tensor y = programs[k % 4 < 2 ? 0 : 1].run({x}, &states)[0];
    sums[0] += static_cast<float>(steps * 3 * k), sums[1] += static_cast<float>(steps * 3 * (100 + k)), length += steps;
    EXPECT_EQ(y.data<float>()[0], sums[0]) << k;
    EXPECT_EQ(y.data<float>()[1], sums[1]) << k;
    EXPECT_EQ(states.dims(0)[1], length);
  }
}

TEST(SessionStreams, RunSideBySide) {
  SessionOptions o = options(Specialise::background);
  o.max_contexts = 3, o.max_specialisations = 2;
  Session session(cache_model(), o);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      auto stream = std::make_unique<Stream>(session);
      float sum = 0;
      for (int k = 0; k < 60; ++k) {
        const int64_t batch = 1 + t % 2, steps = 1 + k % 3;
        const Tensor y = stream->run({{"x", rows(batch, steps, static_cast<float>(t))}})[0].second;
        sum += static_cast<float>(steps * 3 * t);
        wrong += y.data<float>()[batch - 1] != sum;
        if (k == 30) stream = stream->fork();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(session.report().streams, 0);
  EXPECT_EQ(session.report().state_bytes, 0);
}

}  // namespace
}  // namespace metac::session_streams_test
