#include "compiler/program/plan_memory.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

namespace metac {
namespace {

// 64 bytes more than asked for: vector code may read one vector beyond the last element.
int64_t padded(int64_t bytes) { return (bytes + 127) / 64 * 64; }

// Places the blocks in this order, each at the lowest offset that is free for its whole life.
int64_t place(std::vector<ArenaBlock>& blocks, const std::vector<size_t>& order) {
  int64_t total = 0;
  std::vector<size_t> placed;  // by offset
  for (size_t k : order) {
    ArenaBlock& block = blocks[k];
    int64_t offset = 0;
    for (size_t other : placed) {
      const ArenaBlock& o = blocks[other];
      if (o.first > block.last || block.first > o.last) continue;
      if (offset + padded(block.bytes) <= o.offset) break;
      offset = std::max(offset, o.offset + padded(o.bytes));
    }
    block.offset = offset;
    total = std::max(total, offset + padded(block.bytes));
    auto at = std::upper_bound(placed.begin(), placed.end(), offset,
                               [&](int64_t value, size_t b) { return value < blocks[b].offset; });
    placed.insert(at, k);
  }
  return total;
}

}  // namespace

int64_t plan_memory(std::vector<ArenaBlock>& blocks) {
  using Before = std::function<bool(const ArenaBlock&, const ArenaBlock&)>;
  auto life = [](const ArenaBlock& b) { return static_cast<double>(b.bytes) * (b.last - b.first + 1); };
  const Before orders[] = {
      [](const ArenaBlock& a, const ArenaBlock& b) { return a.bytes > b.bytes; },
      [&](const ArenaBlock& a, const ArenaBlock& b) { return life(a) > life(b); },
      [](const ArenaBlock& a, const ArenaBlock& b) {
        return a.last - a.first > b.last - b.first || (a.last - a.first == b.last - b.first && a.bytes > b.bytes);
      },
      [](const ArenaBlock& a, const ArenaBlock& b) { return a.first < b.first; },
  };
  const int64_t least = live_set_bytes(blocks);
  std::vector<ArenaBlock> best;
  int64_t best_total = INT64_MAX;
  for (const Before& before : orders) {
    std::vector<size_t> order(blocks.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return before(blocks[a], blocks[b]); });
    std::vector<ArenaBlock> tried = blocks;
    int64_t total = place(tried, order);
    if (total < best_total) {
      best_total = total;
      best = std::move(tried);
    }
    if (best_total == least || blocks.size() > 20'000) break;  // placing is quadratic in the worst case
  }
  blocks = std::move(best);
  return best_total;
}

int64_t live_set_bytes(const std::vector<ArenaBlock>& blocks) {
  std::vector<std::pair<int, int64_t>> changes;
  for (const ArenaBlock& block : blocks) {
    changes.push_back({block.first, padded(block.bytes)});
    changes.push_back({block.last + 1, -padded(block.bytes)});
  }
  std::sort(changes.begin(), changes.end());
  int64_t now = 0, most = 0;
  for (auto [step, change] : changes) {
    now += change;
    most = std::max(most, now);
  }
  return most;
}

namespace {

void touch(CompiledProgram& program, int buffer, int time) {
  while (buffer >= 0) {
    rt::Buffer& b = program.buffers[static_cast<size_t>(buffer)];
    if (b.first_step < 0) b.first_step = time;
    b.last_step = std::max(b.last_step, time);
    buffer = b.kind == rt::BufferKind::view ? b.index : -1;
  }
}

// Lifetimes in the numbering of all steps, nested ones where they run.
void walk(CompiledProgram& program, int begin, int end, int& time, std::vector<std::pair<int, int>>& repeated) {
  std::map<int, int> times;  // when each step runs first
  for (int k = begin; k < end; ++k) {
    const rt::Step& s = program.steps[static_cast<size_t>(k)];
    times[k] = time;
    if (s.kind == rt::StepKind::repeat) repeated.push_back({times.at(s.then_begin), time});
    auto touch_operands = [&] {
      for (int o = 0; o < s.count; ++o) touch(program, program.operands[static_cast<size_t>(s.first + o)], time);
    };
    touch_operands();
    int entered = time++;
    if (s.kind != rt::StepKind::branch && s.kind != rt::StepKind::loop) continue;
    walk(program, s.then_begin, s.then_end, time, repeated);
    if (s.kind == rt::StepKind::branch) walk(program, s.else_begin, s.else_end, time, repeated);
    // What lived before a loop and is used inside lives through all iterations.
    for (rt::Buffer& b : program.buffers)
      if (b.first_step >= 0 && b.first_step <= entered && b.last_step > entered && s.kind == rt::StepKind::loop)
        b.last_step = time;
    touch_operands();
    ++time;
  }
}

}  // namespace

void plan_buffers(CompiledProgram& program) {
  int time = 0;
  std::vector<std::pair<int, int>> repeated;
  walk(program, 0, program.top_level_steps, time, repeated);
  // What crosses the border of repeated steps lives through all rounds.
  for (auto [first, last] : repeated)
    for (rt::Buffer& b : program.buffers) {
      if (b.first_step < 0 || b.first_step > last || b.last_step < first) continue;
      if (b.first_step >= first && b.last_step <= last) continue;
      b.first_step = std::min(b.first_step, first);
      b.last_step = std::max(b.last_step, last);
    }
  std::vector<ArenaBlock> blocks;
  std::vector<size_t> owners;
  for (size_t k = 0; k < program.buffers.size(); ++k) {
    const rt::Buffer& b = program.buffers[k];
    if (b.kind != rt::BufferKind::arena || b.bytes.length != 0) continue;
    blocks.push_back({b.bytes.value, std::max(b.first_step, 0), std::max(b.last_step, 0), -1});
    owners.push_back(k);
  }
  program.arena_bytes = plan_memory(blocks);
  program.live_set_bytes = live_set_bytes(blocks);
  for (size_t k = 0; k < blocks.size(); ++k) program.buffers[owners[k]].offset = blocks[k].offset;
}

}  // namespace metac
