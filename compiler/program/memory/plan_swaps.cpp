#include "compiler/program/memory/plan_swaps.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

namespace metac {

namespace {

constexpr int64_t placed_at = 256;  // bytes; what libraries like best

int64_t placed_bytes(const rt::Buffer& b) { return (b.bytes.value + placed_at - 1) / placed_at * placed_at; }

class SwapPlan {
 public:
  explicit SwapPlan(const CompiledProgram& program)
      : p_(program), uses_(static_cast<size_t>(program.top_level_steps)), counts_(program.buffers.size()) {
    for (int i = 0; i < p_.top_level_steps; ++i) {
      collect(i, i + 1, uses_[static_cast<size_t>(i)]);
      for (int b : uses_[static_cast<size_t>(i)])
        if (counts_[static_cast<size_t>(b)]++ == 0) weights_.push_back(b);
    }
  }

  bool can() const {
    return std::none_of(p_.steps.begin(), p_.steps.end(),
                        [](const rt::Step& s) { return s.kind == rt::StepKind::repeat; }) &&
           !weights_.empty();
  }

  // Loads within so many bytes of the card.
  std::optional<std::pair<std::vector<rt::Load>, int64_t>> within(int64_t room) {
    std::vector<bool> stays(p_.buffers.size());
    int64_t all = 0;
    for (int b : weights_) all += bytes_of(b);
    int64_t ring = 0;
    if (all > room) {
      const int64_t least = most_at_once();
      for (ring = least; ring <= room && !loads_of(ring, stays);
           ring += std::max<int64_t>(placed_at, least / 8 / placed_at * placed_at)) {
      }
      if (ring > room) return std::nullopt;
    }
    std::vector<int> order = weights_;
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return std::make_pair(-counts_[static_cast<size_t>(a)], bytes_of(a)) <
             std::make_pair(-counts_[static_cast<size_t>(b)], bytes_of(b));
    });
    std::vector<rt::Load> loads;
    int64_t used = ring;
    for (int b : order) {
      if (used + bytes_of(b) > room) continue;
      stays[static_cast<size_t>(b)] = true;
      loads.push_back({-1, b, used});
      used += bytes_of(b);
    }
    auto streamed = loads_of(ring, stays);
    if (!streamed) {  // fewer weights lie otherwise, and may not go where all of them did
      stays.assign(stays.size(), false);
      loads.clear();
      used = ring;
      streamed = loads_of(ring, stays);
    }
    if (!streamed) return std::nullopt;
    loads.insert(loads.end(), streamed->begin(), streamed->end());
    return std::make_pair(std::move(loads), used);
  }

 private:
  struct Placed {
    int buffer;
    int64_t begin, end;
  };

  int64_t bytes_of(int buffer) const { return placed_bytes(p_.buffers[static_cast<size_t>(buffer)]); }

  void collect(int begin, int end, std::set<int>& found) const {
    for (int i = begin; i < end; ++i) {
      const rt::Step& s = p_.steps[static_cast<size_t>(i)];
      for (int k = s.first; k < s.first + s.count; ++k) {
        int b = p_.operands[static_cast<size_t>(k)];
        while (b >= 0 && p_.buffers[static_cast<size_t>(b)].kind == rt::BufferKind::view)
          b = p_.buffers[static_cast<size_t>(b)].index;
        if (b >= 0 && p_.buffers[static_cast<size_t>(b)].kind == rt::BufferKind::weight) found.insert(b);
      }
      if (s.kind == rt::StepKind::branch || s.kind == rt::StepKind::loop) collect(s.then_begin, s.then_end, found);
      if (s.kind == rt::StepKind::branch) collect(s.else_begin, s.else_end, found);
    }
  }

  // Of two steps that follow each other.
  int64_t most_at_once() const {
    int64_t most = placed_at;
    for (size_t i = 0; i < uses_.size(); ++i) {
      std::set<int> both = uses_[i];
      if (i > 0) both.insert(uses_[i - 1].begin(), uses_[i - 1].end());
      int64_t bytes = 0;
      for (int b : both) bytes += bytes_of(b);
      most = std::max(most, bytes);
    }
    return most;
  }

  // What does not stay goes through a ring of so many bytes; nothing: it is too small.
  std::optional<std::vector<rt::Load>> loads_of(int64_t ring, const std::vector<bool>& stays) const {
    std::vector<rt::Load> loads;
    std::vector<Placed> live;
    int64_t cursor = 0;
    for (size_t i = 0; i < uses_.size(); ++i)
      for (int b : uses_[i]) {
        if (stays[static_cast<size_t>(b)] ||
            std::any_of(live.begin(), live.end(), [&](const Placed& p) { return p.buffer == b; }))
          continue;
        const int64_t size = bytes_of(b);
        const auto in_the_way = [&]() -> const Placed* {
          for (const Placed& p : live)
            if (p.begin < cursor + size && cursor < p.end &&
                (uses_[i].count(p.buffer) != 0 || (i > 0 && uses_[i - 1].count(p.buffer) != 0)))
              return &p;
          return nullptr;
        };
        for (int rounds = 0;;) {
          if (cursor + size > ring) {
            if (++rounds > 2) return std::nullopt;
            cursor = 0;
          }
          if (size > ring) return std::nullopt;
          const Placed* const other = in_the_way();
          if (other == nullptr) break;
          cursor = other->end;
        }
        live.erase(std::remove_if(live.begin(), live.end(),
                                  [&](const Placed& p) { return p.begin < cursor + size && cursor < p.end; }),
                   live.end());
        live.push_back({b, cursor, cursor + size});
        loads.push_back({static_cast<int32_t>(i), b, cursor});
        cursor += size;
      }
    return loads;
  }

  const CompiledProgram& p_;
  std::vector<std::set<int>> uses_;  // by step of the top level: the weights that it reads
  std::vector<int> counts_;          // by buffer: how many steps read it
  std::vector<int> weights_;         // those that any step reads
};

}  // namespace

bool plan_swaps(CompiledProgram& program, int64_t budget) {
  SwapPlan plan(program);
  const int64_t room = budget - (run_bytes(program) - (program.loads.empty() ? program.weight_bytes : program.window_bytes));
  if (!plan.can() || room <= 0) return false;
  auto found = plan.within(room);
  if (!found) return false;
  program.loads = std::move(found->first);
  program.window_bytes = found->second;
  return true;
}

}  // namespace metac
