// The executor on programs made by hand: shapes bound and checked, memory placed, branches, loops, routines, failures.
#include "runtime/executor/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "runtime/routines.h"
#include "tests/runtime/tables.h"

namespace {

using namespace tables;
using testing::ElementsAre;
using testing::HasSubstr;

void add_one(void* const* b, const int64_t*, void*, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) static_cast<float*>(b[1])[i] = static_cast<const float*>(b[0])[i] + 1;
}
void doubled(void* const* b, const int64_t*, void*, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) static_cast<float*>(b[1])[i] = static_cast<const float*>(b[0])[i] * 2;
}
void iteration_number(void* const* b, const int64_t* s, void*, int64_t, int64_t) {
  *static_cast<float*>(b[0]) = static_cast<float>(s[0]);
}
// Goes on while the iteration is below 4.
void below_four(void* const* b, const int64_t* s, void*, int64_t, int64_t) { *static_cast<uint8_t*>(b[0]) = s[0] < 4; }

class Runner {
 public:
  explicit Runner(const Program& program, int threads = 1, const void* weights = nullptr) {
    pool.start(threads);
    int32_t count = 0;
    const RoutineEntry* all = all_routines(&count);
    EXPECT_EQ(executor.create(program, weights, &pool, all, count), Status::ok) << executor.failure().message;
  }
  // One input, outputs of the context.
  Status run(const std::vector<float>& x, std::vector<int64_t> dims, int outputs = 1) {
    const InputView in = {x.data(), dims.data(), static_cast<int32_t>(dims.size())};
    std::vector<OutputView> out(static_cast<size_t>(outputs), OutputView{nullptr, 0});
    return executor.run(&in, 1, out.data(), outputs);
  }
  std::vector<float> result(int i = 0) const {
    const float* data = static_cast<const float*>(executor.output_data(i));
    return std::vector<float>(data, data + executor.output_bytes(i) / 4);
  }
  std::string message() const { return executor.failure().message; }
  ThreadPool pool;
  Executor executor;
};

// y = (x + 1) * 2 for x of n elements, 1 <= n <= 6 and even.
Tables chain() {
  Tables t;
  const int n = t.symbol("batch", 1, 6, 2);
  t.sources.push_back({n, 0, 0});
  const int x = t.input("x", {t.just(n)}, t.times(n, 4)),
            mid = t.buffer(BufferKind::arena, 0, {t.just(n)}, t.times(n, 4), ScalarType::f32, false, 0, 1);
  const int y = t.output("y", {t.just(n)}, t.times(n, 4));
  t.launch(add_one, {x, mid}, t.just(n));
  t.launch(doubled, {mid, y}, t.just(n));
  return t;
}

TEST(Executor, RunsAndPlansForEveryShape) {
  Tables t = chain();
  Runner r(t.program());
  ASSERT_EQ(r.run({1, 2}, {2}), Status::ok) << r.message();
  EXPECT_THAT(r.result(), ElementsAre(4, 6));
  ASSERT_EQ(r.run({1, 2, 3, 4, 5, 6}, {6}), Status::ok);
  EXPECT_THAT(r.result(), ElementsAre(4, 6, 8, 10, 12, 14));
  ASSERT_EQ(r.run({0, 0}, {2}), Status::ok);
  EXPECT_EQ(r.executor.output_dim(0, 0), 2);
}

TEST(Executor, ExplainsWrongShapes) {
  Tables t = chain();
  Runner r(t.program());
  EXPECT_EQ(r.run({1, 2, 3}, {3}), Status::invalid_argument);
  EXPECT_THAT(r.message(), HasSubstr("input \"x\", dim 0: \"batch\" is 3, expected a multiple of 2"));
  EXPECT_EQ(r.run({}, {8}), Status::invalid_argument);
  EXPECT_THAT(r.message(), HasSubstr("is 8, expected 1 to 6"));
  EXPECT_EQ(r.run({}, {2, 2}), Status::invalid_argument);
  EXPECT_THAT(r.message(), HasSubstr("2 dims given, expected 1"));
  EXPECT_EQ(r.run({1, 2}, {-2}), Status::invalid_argument);
  const int64_t dims[] = {2};
  const InputView no_data = {nullptr, dims, 1};
  OutputView out{};
  EXPECT_EQ(r.executor.run(&no_data, 1, &out, 1), Status::invalid_argument);
  EXPECT_EQ(r.executor.run(&no_data, 0, &out, 1), Status::invalid_argument);
  EXPECT_EQ(r.run({1, 2}, {2}), Status::ok);  // and goes on working
}

TEST(Executor, TwoInputsMustAgree) {
  Tables t;
  const int n = t.symbol("batch");
  t.sources = {{n, 0, 0}, {n, 1, 0}};
  t.input("a", {t.just(n), Tables::fixed(3)}, t.times(n, 12));
  t.input("b", {t.just(n)}, t.times(n, 4));
  Runner r(t.program());
  const int64_t a[] = {2, 3}, a4[] = {2, 4}, b2[] = {2}, b5[] = {5};
  const float data[16] = {};
  InputView in[2] = {{data, a, 2}, {data, b5, 1}};
  EXPECT_EQ(r.executor.run(in, 2, nullptr, 0), Status::invalid_argument);
  EXPECT_THAT(r.message(), HasSubstr("input \"b\", dim 0 is 5, but \"batch\" is 2 by an earlier input"));
  in[0].dims = a4;
  in[1].dims = b2;
  EXPECT_EQ(r.executor.run(in, 2, nullptr, 0), Status::invalid_argument);
  EXPECT_THAT(r.message(), HasSubstr("input \"a\": dim 1 is 4, expected 3"));
}

TEST(Executor, WritesIntoTheCallersMemory) {
  Tables t = chain();
  Runner r(t.program());
  const float x[2] = {1, 2};
  float y[3] = {0, 0, 9};
  const int64_t dims[] = {2};
  const InputView in = {x, dims, 1};
  OutputView out = {y, sizeof y};
  ASSERT_EQ(r.executor.run(&in, 1, &out, 1), Status::ok);
  EXPECT_THAT(y, ElementsAre(4, 6, 9));
  out.bytes = 4;
  EXPECT_EQ(r.executor.run(&in, 1, &out, 1), Status::invalid_argument);
  EXPECT_THAT(r.message(), HasSubstr("output \"y\" needs 8 bytes, the memory given has 4"));
}

TEST(Executor, ChecksRequirementsWithTheirValues) {
  Tables t = chain();
  t.messages.push_back("the batch must be 4");
  Step& s = t.step(StepKind::check, {});
  s.element = 0;
  s.parallel = t.of({{Code::symbol, 0}, {Code::constant, 4}, {Code::eq, 0}});
  Runner r(t.program());
  EXPECT_EQ(r.run({1, 2, 3, 4}, {4}), Status::ok);
  EXPECT_EQ(r.run({1, 2}, {2}), Status::requirement);
  EXPECT_EQ(r.message(), "the batch must be 4 (\"batch\" is 2)");
}

TEST(Executor, RefusesSizesThatOverflow) {
  Tables t;
  const int n = t.symbol("n");
  t.sources.push_back({n, 0, 0});
  t.input("x", {t.just(n)}, t.times(n, 4));
  t.buffer(BufferKind::arena, 0, {t.just(n)}, t.of({{Code::symbol, n}, {Code::symbol, n}, {Code::mul, 0}}));
  Runner r(t.program());
  const float x = 0;
  for (const int64_t size : {int64_t{1} << 40, int64_t{1} << 30}) {
    const InputView in = {&x, &size, 1};
    EXPECT_NE(r.executor.run(&in, 1, nullptr, 0), Status::ok);
    EXPECT_NE(r.message(), "");
  }
}

TEST(Executor, TakesOneBranch) {
  Tables t;
  const int x = t.input("x", {Tables::fixed(2)}, Tables::fixed(8)),
            c = t.input("c", {}, Tables::fixed(1), ScalarType::boolean);
  const int y = t.output("y", {Tables::fixed(2)}, Tables::fixed(8));
  t.step(StepKind::branch, {c});
  t.launch(add_one, {x, y}, Tables::fixed(2));
  t.launch(doubled, {x, y}, Tables::fixed(2));
  t.steps[0].then_begin = 1, t.steps[0].then_end = 2, t.steps[0].else_begin = 2, t.steps[0].else_end = 3;
  Runner r(t.program(1));
  const float data[2] = {3, 4};
  const int64_t dims[] = {2};
  for (const uint8_t condition : {1, 0}) {
    const InputView in[2] = {{data, dims, 1}, {&condition, nullptr, 0}};
    const OutputView out{};
    ASSERT_EQ(r.executor.run(in, 2, &out, 1), Status::ok) << r.message();
    if (condition)
      EXPECT_THAT(r.result(), ElementsAre(4, 5));
    else
      EXPECT_THAT(r.result(), ElementsAre(6, 8));
  }
}

// Loop: the carried pair (a, b) becomes (b, a + 1); every iteration's number is stacked; ends by its condition.
TEST(Executor, LoopsTradeValuesAndStack) {
  Tables t;
  const int iteration = t.symbol("iteration"), trips = t.symbol("trips");
  const Extent one = Tables::fixed(4), scalar = Tables::fixed(1);
  const int a0 = t.input("a", {scalar}, one), b0 = t.input("b", {scalar}, one);
  auto arena = [&](Extent bytes, ScalarType type = ScalarType::f32) {
    return t.buffer(BufferKind::arena, 0, {scalar}, bytes, type);
  };
  const int a = arena(one), b = arena(one), a_next = arena(one), number = arena(one),
            more = arena(scalar, ScalarType::boolean);
  const int a_view = t.buffer(BufferKind::view, b, {scalar}, one);  // next a is this b
  const int a_out = t.output("a out", {scalar}, one), b_out = t.output("b out", {scalar}, one);
  const int numbers = t.output("numbers", {t.just(trips)}, t.times(trips, 4), ScalarType::f32, true);
  t.step(StepKind::loop, {-1, -1, a0, b0, a, b, a_view, a_next, a_out, b_out, more, number, numbers});
  t.launch(add_one, {a, a_next}, scalar);
  t.launch(iteration_number, {number}, scalar);
  t.launch(below_four, {more}, scalar);
  t.steps[0].symbol = iteration, t.steps[0].else_begin = trips;
  t.steps[0].carried = 2, t.steps[0].stacked = 1, t.steps[0].then_begin = 1, t.steps[0].then_end = 4;
  Runner r(t.program(1));
  const float values[2] = {10, 20};
  const int64_t dims[] = {1};
  const InputView in[2] = {{&values[0], dims, 1}, {&values[1], dims, 1}};
  const OutputView out[3] = {};
  for (int again = 0; again < 2; ++again) {
    ASSERT_EQ(r.executor.run(in, 2, out, 3), Status::ok) << r.message();
    EXPECT_THAT(r.result(0), ElementsAre(22));  // (10,20) (20,11) (11,21) (21,12) (12,22) (22,13)
    EXPECT_THAT(r.result(1), ElementsAre(13));
    EXPECT_THAT(r.result(2), ElementsAre(0, 1, 2, 3, 4));
  }
}

TEST(Executor, RoutinesBindCountsAndGrowOutputs) {
  Tables t;
  const int n = t.symbol("n"), found = t.symbol("found", 0, 1 << 20);
  t.sources.push_back({n, 0, 0});
  const int x = t.input("x", {t.just(n)}, t.times(n, 4));
  const int y = t.output("y", {Tables::fixed(1), t.just(found)}, t.times(found, 8), ScalarType::i64, true);
  t.routines.push_back("nonzero");
  t.symbol_ids.push_back(found);
  Step& s = t.step(StepKind::external, {x, y});
  s.kernel = 0, s.inputs = 1, s.symbol = 0, s.symbol_count = 1, s.element = -1;
  Runner r(t.program());
  EXPECT_EQ(r.executor.output_dim(0, 1), -1);
  ASSERT_EQ(r.run({0, 3, 0, 4, NAN}, {5}), Status::ok) << r.message();
  EXPECT_EQ(r.executor.output_dim(0, 1), 3);
  const int64_t* places = static_cast<const int64_t*>(r.executor.output_data(0));
  EXPECT_THAT(std::vector<int64_t>(places, places + 3), ElementsAre(1, 3, 4));
  ASSERT_EQ(r.run({0, 0}, {2}), Status::ok);
  EXPECT_EQ(r.executor.output_bytes(0), 0);
}

TEST(Executor, NamesAMissingRoutine) {
  Tables t;
  t.routines.push_back("levitate");
  Executor executor;
  ThreadPool pool;
  EXPECT_EQ(executor.create(t.program(), nullptr, &pool, nullptr, 0), Status::unsupported);
  EXPECT_THAT(executor.failure().message, HasSubstr("levitate"));
}

TEST(Executor, PassesInputsAndWeightsThrough) {
  Tables t;
  const int x = t.input("x", {Tables::fixed(2)}, Tables::fixed(8));
  const int w = t.buffer(BufferKind::weight, 0, {Tables::fixed(2)}, Tables::fixed(8));
  t.buffers[static_cast<size_t>(w)].offset = 8;
  t.outputs = {{"same", x}, {"weight", w}};
  const float weights[4] = {0, 0, 5, 6};
  Runner r(t.program(), 1, weights);
  const float data[2] = {1, 2};
  float copied[2] = {};
  const int64_t dims[] = {2};
  const InputView in = {data, dims, 1};
  const OutputView out[2] = {{copied, sizeof copied}, {nullptr, 0}};
  ASSERT_EQ(r.executor.run(&in, 1, out, 2), Status::ok) << r.message();
  EXPECT_THAT(copied, ElementsAre(1, 2));
  EXPECT_THAT(r.result(1), ElementsAre(5, 6));
}

TEST(Executor, ContextsOfOneProgramRunAtOnce) {
  Tables t = chain();
  const Program& program = t.program();
  std::vector<std::thread> threads;
  for (int k = 0; k < 3; ++k) {
    threads.emplace_back([&, k] {
      Runner r(program, 2);
      for (int i = 0; i < TEST_ITERATIONS / 10; ++i) {
        const float x = static_cast<float>(k * 1000 + i);
        ASSERT_EQ(r.run({x, x}, {2}), Status::ok);
        ASSERT_EQ(r.result()[1], (x + 1) * 2);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Executor, FindsTheStepThatMadeTheFirstNaN) {
  Tables t = chain();
  Runner r(t.program());
  const std::tuple<float, int, int> cases[] = {{1, -1, -1}, {3e38f, -1, 1}, {INFINITY, -1, 0}, {NAN, 0, -1}};
  for (const auto& [x, nan_step, infinity_step] : cases) {
    r.run({NAN, NAN}, {2});  // leaves NaN in the memory that the next run uses
    NonFiniteWatch watch;
    ASSERT_TRUE(r.executor.watch(&watch));
    ASSERT_EQ(r.run({1, x, 1, 1, 1, 1}, {6}), Status::ok);
    r.executor.watch(nullptr);
    EXPECT_EQ(watch.first_nan_step, nan_step) << x;
    EXPECT_EQ(watch.first_infinity_step, infinity_step) << x;
  }
}

TEST(Executor, EndsBeforeTheNextStepWhenItIsStopped) {
  Tables t = chain();
  Runner r(t.program());
  std::atomic<bool> stopped{true};
  r.executor.stop_when(&stopped);
  EXPECT_EQ(r.run({1, 2}, {2}), Status::cancelled);
  EXPECT_STREQ(r.executor.failure().message, "the run was cancelled");
  stopped = false;
  ASSERT_EQ(r.run({1, 2}, {2}), Status::ok);
  EXPECT_EQ(r.result()[1], (2 + 1) * 2);
}

TEST(Executor, CountsStepsWhenAsked) {
  Tables t = chain();
  Runner r(t.program());
  StepTime times[2] = {};
  r.executor.profile(times);
  r.run({1, 2}, {2});
  r.run({1, 2}, {2});
  EXPECT_EQ(times[1].runs, 2);
}

}  // namespace
