#include "compiler/program/memory/plan_swaps.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace metac::plan_swaps_test {
namespace {

// A chain of steps, each of which reads the one before it and some weights.
CompiledProgram chain(std::mt19937& random) {
  CompiledProgram program;
  const int steps = static_cast<int>(5 + random() % 40), weights = static_cast<int>(1 + random() % 60);
  for (int w = 0; w < weights; ++w) {
    rt::Buffer b{};
    b.kind = rt::BufferKind::weight;
    b.bytes = {static_cast<int64_t>(1 + random() % 5000), 0};
    b.offset = program.weight_bytes;
    program.weight_bytes += (b.bytes.value + 63) / 64 * 64;
    program.buffers.push_back(b);
  }
  rt::Buffer view = program.buffers[0];
  view.kind = rt::BufferKind::view;
  view.index = 0;
  program.buffers.push_back(view);
  for (int s = 0; s < steps; ++s) {
    rt::Step step{};
    step.kind = rt::StepKind::launch;
    step.first = static_cast<int32_t>(program.operands.size());
    step.count = static_cast<int32_t>(random() % 3);
    for (int k = 0; k < step.count; ++k) program.operands.push_back(static_cast<int32_t>(random() % program.buffers.size()));
    program.steps.push_back(step);
  }
  program.top_level_steps = steps;
  return program;
}

// Does what an executor does: what step k + 1 reads may be copied in before step k has run.
void check(const CompiledProgram& program) {
  std::map<int64_t, std::pair<int64_t, int>> window;  // by where they begin: where they end, whose they are
  size_t next = 0;
  auto copy_up_to = [&](int step) {
    for (; next < program.loads.size() && program.loads[next].step <= step; ++next) {
      const rt::Load& load = program.loads[next];
      const int64_t begin = load.offset, end = begin + program.buffers[static_cast<size_t>(load.buffer)].bytes.value;
      ASSERT_GE(begin, 0);
      ASSERT_LE(end, program.window_bytes);
      for (auto at = window.begin(); at != window.end();)
        at = at->first < end && begin < at->second.first ? window.erase(at) : std::next(at);
      window[begin] = {end, load.buffer};
    }
  };
  std::map<int, int64_t> where;
  size_t arrived = 0;
  for (int s = 0; s < program.top_level_steps; ++s) {
    copy_up_to(s + 1);
    for (; arrived < program.loads.size() && program.loads[arrived].step <= s; ++arrived)
      where[program.loads[arrived].buffer] = program.loads[arrived].offset;
    const rt::Step& step = program.steps[static_cast<size_t>(s)];
    for (int k = step.first; k < step.first + step.count; ++k) {
      int b = program.operands[static_cast<size_t>(k)];
      if (program.buffers[static_cast<size_t>(b)].kind == rt::BufferKind::view)
        b = program.buffers[static_cast<size_t>(b)].index;
      ASSERT_TRUE(where.count(b)) << "step " << s << " reads weight " << b;
      auto found = window.find(where[b]);
      ASSERT_TRUE(found != window.end() && found->second.second == b)
          << "step " << s << ": weight " << b << " is overwritten";
    }
  }
}

TEST(PlanSwaps, every_step_finds_its_weights_within_the_budget) {
  std::mt19937 random(5);
  int planned = 0, copied = 0;
  for (int round = 0; round < 2000; ++round) {
    CompiledProgram program = chain(random);
    const int64_t budget = static_cast<int64_t>(random() % static_cast<uint64_t>(program.weight_bytes));
    if (!plan_swaps(program, budget)) {
      EXPECT_TRUE(program.loads.empty());
      continue;
    }
    ++planned;
    copied += copied_bytes(program) > 0;
    EXPECT_LE(run_bytes(program), budget);
    check(program);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(planned, 1000);
  EXPECT_GT(copied, 500);
}

TEST(PlanSwaps, what_fits_stays) {
  std::mt19937 random(6);
  CompiledProgram program = chain(random);
  ASSERT_TRUE(plan_swaps(program, 1 << 20));
  EXPECT_EQ(copied_bytes(program), 0);
}

}  // namespace
}  // namespace metac::plan_swaps_test
