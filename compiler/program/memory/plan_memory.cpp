#include "compiler/program/memory/plan_memory.h"

#include <algorithm>
#include <array>
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
      if (!o.lives_with(block)) continue;
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

namespace {

int64_t most_at_once(std::vector<std::pair<int, int64_t>> changes) {
  std::sort(changes.begin(), changes.end());
  int64_t now = 0, most = 0;
  for (auto [step, change] : changes) {
    now += change;
    most = std::max(most, now);
  }
  return most;
}

}  // namespace

int64_t live_set_bytes(const std::vector<ArenaBlock>& blocks) {
  using Changes = std::vector<std::pair<int, int64_t>>;
  Changes changes;
  std::map<std::array<int, 3>, Changes> chains;
  for (const ArenaBlock& block : blocks) {
    Changes& of = block.chain < 0 ? changes : chains[{block.section_first, block.section_last, block.chain}];
    of.push_back({block.first, padded(block.bytes)});
    of.push_back({block.last + 1, -padded(block.bytes)});
  }
  for (auto& [chain, of] : chains) {  // each may be where it needs most while the others are
    const int64_t most = most_at_once(std::move(of));
    changes.push_back({chain[0], most});
    changes.push_back({chain[1] + 1, -most});
  }
  return most_at_once(std::move(changes));
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

// Chains side by side, in times.
struct Section {
  int first = 0, last = 0;
  std::vector<int> chains;  // when each begins
};
struct Lasting {
  std::vector<std::pair<int, int>> repeated;
  std::vector<Section> sections;
};

// Lifetimes in the numbering of all steps, nested ones where they run.
void walk(CompiledProgram& program, int begin, int end, int& time, Lasting& lasting) {
  std::map<int, int> times;  // when each step runs first
  for (int k = begin; k < end; ++k) {
    const rt::Step& s = program.steps[static_cast<size_t>(k)];
    times[k] = time;
    if (s.kind == rt::StepKind::repeat) lasting.repeated.push_back({times.at(s.then_begin), time});
    if (s.kind == rt::StepKind::beside) {  // launches alone, each of which counts once
      if (s.carried > 0) lasting.sections.push_back({time, time + s.else_end - k - 1, {}});
      lasting.sections.back().chains.push_back(time);
    }
    auto touch_operands = [&] {
      for (int o = 0; o < s.count; ++o) touch(program, program.operands[static_cast<size_t>(s.first + o)], time);
    };
    touch_operands();
    int entered = time++;
    if (s.kind != rt::StepKind::branch && s.kind != rt::StepKind::loop) continue;
    walk(program, s.then_begin, s.then_end, time, lasting);
    if (s.kind == rt::StepKind::branch) walk(program, s.else_begin, s.else_end, time, lasting);
    // What lived before a loop and is used inside lives through all iterations.
    for (rt::Buffer& b : program.buffers)
      if (b.first_step >= 0 && b.first_step <= entered && b.last_step > entered && s.kind == rt::StepKind::loop)
        b.last_step = time;
    touch_operands();
    ++time;
  }
}

// What crosses the border of these steps lives through all of them.
void live_through(CompiledProgram& program, int first, int last) {
  for (rt::Buffer& b : program.buffers) {
    if (b.first_step < 0 || b.first_step > last || b.last_step < first) continue;
    if (b.first_step >= first && b.last_step <= last) continue;
    b.first_step = std::min(b.first_step, first);
    b.last_step = std::max(b.last_step, last);
  }
}

}  // namespace

void plan_buffers(CompiledProgram& program) {
  int time = 0;
  Lasting lasting;
  for (rt::Buffer& b : program.buffers) b.first_step = b.last_step = -1;
  walk(program, 0, program.top_level_steps, time, lasting);
  for (auto [first, last] : lasting.repeated) live_through(program, first, last);
  for (const Section& s : lasting.sections) live_through(program, s.first, s.last);
  std::vector<ArenaBlock> blocks;
  std::vector<size_t> owners;
  for (size_t k = 0; k < program.buffers.size(); ++k) {
    const rt::Buffer& b = program.buffers[k];
    if (b.kind != rt::BufferKind::arena || b.bytes.length != 0) continue;
    ArenaBlock block{b.bytes.value, std::max(b.first_step, 0), std::max(b.last_step, 0)};
    for (const Section& s : lasting.sections) {
      if (block.first < s.first || block.last > s.last) continue;
      block.section_first = s.first, block.section_last = s.last;
      block.chain = static_cast<int>(std::upper_bound(s.chains.begin(), s.chains.end(), block.first) - s.chains.begin());
    }
    blocks.push_back(block);
    owners.push_back(k);
  }
  program.arena_bytes = plan_memory(blocks);
  program.live_set_bytes = live_set_bytes(blocks);
  for (size_t k = 0; k < blocks.size(); ++k) program.buffers[owners[k]].offset = blocks[k].offset;
}

}  // namespace metac
