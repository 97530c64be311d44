#include "compiler/program/place_chains.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "compiler/program/memory/plan_memory.h"
#include "compiler/support/diagnostic.h"
#include "runtime/extent.h"

namespace metac {
namespace {

constexpr int longest_section = 256;  // steps
constexpr int most_workers = 64;
constexpr int64_t most_memory = 2 << 20;  // more that chains may take, beside an eighth

// A step as the choice sees it.
struct Candidate {
  int step = 0;
  int64_t iterations = 0;
  double ns = 0;  // of one iteration
  double alone() const { return static_cast<double>(iterations) * ns; }
};

// What the launches of a section touch: who wrote and who read what by now, as members of a union of sets.
class Chains {
 public:
  explicit Chains(size_t launches) : parent_(launches), load_(launches) { std::iota(parent_.begin(), parent_.end(), 0); }

  int chain_of(int launch) {
    while (parent_[static_cast<size_t>(launch)] != launch)
      launch = parent_[static_cast<size_t>(launch)] = parent_[static_cast<size_t>(parent_[static_cast<size_t>(launch)])];
    return launch;
  }

  void add(int launch, double ns) {
    load_[static_cast<size_t>(launch)] = ns;
    longest_ = std::max(longest_, ns);
    ++count_;
  }

  void touch(int launch, int memory, bool writes) {
    Touched& t = touched_[memory];
    if (t.writer >= 0) join(launch, t.writer);
    if (writes)
      for (int reader : t.readers) join(launch, reader);
    if (writes)
      t = {launch, {}};
    else
      t.readers.push_back(launch);
  }

  int count() const { return count_; }
  double longest() const { return longest_; }
  double load(int chain) const { return load_[static_cast<size_t>(chain)]; }

 private:
  struct Touched {
    int writer = -1;
    std::vector<int> readers;  // since then
  };

  void join(int a, int b) {
    a = chain_of(a), b = chain_of(b);
    if (a == b) return;
    parent_[static_cast<size_t>(a)] = b;
    load_[static_cast<size_t>(b)] += load_[static_cast<size_t>(a)];
    longest_ = std::max(longest_, load_[static_cast<size_t>(b)]);
    --count_;
  }

  std::vector<int> parent_;
  std::vector<double> load_;
  std::map<int, Touched> touched_;
  double longest_ = 0;
  int count_ = 0;
};

class ChainPlacer {
 public:
  ChainPlacer(CompiledProgram& program, const ChainCosts& costs) : p_(program), costs_(costs) {}

  void run() {
    for (const CompiledProgram::SymbolRow& s : p_.symbols) typical_.push_back(s.typical);
    const size_t count = static_cast<size_t>(p_.top_level_steps);
    std::vector<bool> repeated(count);
    for (size_t k = 0; k < count; ++k)
      if (p_.steps[k].kind == rt::StepKind::repeat)
        std::fill(repeated.begin() + p_.steps[k].then_begin, repeated.begin() + static_cast<long>(k), true);
    std::vector<Candidate> segment;
    for (size_t k = 0; k <= count; ++k) {
      const bool goes_on = k < count && !repeated[k] && may_move(p_.steps[k]);
      if (goes_on) {
        segment.push_back(candidate(static_cast<int>(k)));
        continue;
      }
      choose(segment);
      segment.clear();
    }
    if (sections_.empty()) return;
    plan_buffers(p_);
    const int64_t before = p_.arena_bytes;
    const StepTable untouched = table();
    rearrange();
    plan_buffers(p_);
    if (p_.arena_bytes > before + before / 8 + most_memory) set_table(untouched);  // values of all chains are there at once
  }

 private:
  struct Section {
    int begin = 0, end = 0;  // steps
  };

  // What is put in another order.
  struct StepTable {
    std::vector<rt::Step> steps;
    std::vector<std::string> comments;
    std::vector<Work> work;
    std::vector<UnevenRounds> uneven;
    int32_t top_level = 0;
  };
  StepTable table() const { return {p_.steps, p_.step_comments, p_.work, p_.uneven, p_.top_level_steps}; }
  void set_table(StepTable t) {
    p_.steps = std::move(t.steps);
    p_.step_comments = std::move(t.comments);
    p_.work = std::move(t.work);
    p_.uneven = std::move(t.uneven);
    p_.top_level_steps = t.top_level;
  }

  // ---- what a step touches ----
  // Who owns a buffer's memory, or may do so: a caller may have some outputs where an input is. Results in the place of
  // operands are long chains of views: each is walked once.
  int memory_of(int buffer) {
    if (owners_.empty()) owners_.assign(p_.buffers.size(), -1);
    std::vector<int> way;
    for (; owners_[static_cast<size_t>(buffer)] < 0; buffer = lies_in(buffer)) {
      way.push_back(buffer);
      if (lies_in(buffer) == buffer) owners_[static_cast<size_t>(buffer)] = buffer;
    }
    const int owner = owners_[static_cast<size_t>(buffer)];
    for (const int each : way) owners_[static_cast<size_t>(each)] = owner;
    return owner;
  }
  int lies_in(int buffer) const {
    const rt::Buffer& b = p_.buffers[static_cast<size_t>(buffer)];
    if (b.kind == rt::BufferKind::view) return b.index;
    const int input = b.kind == rt::BufferKind::output ? p_.outputs[static_cast<size_t>(b.index)].overwrites : -1;
    return input >= 0 ? p_.inputs[static_cast<size_t>(input)].buffer : buffer;
  }

  bool may_move(const rt::Step& s) {
    if (s.kind != rt::StepKind::launch || s.cost <= 0) return false;  // a user's code says nothing of its cost
    for (int o = s.first; o < s.first + s.count; ++o) {
      const int buffer = p_.operands[static_cast<size_t>(o)];
      if (buffer < 0) continue;
      // What runs plan, they plan for steps in turn.
      const rt::Buffer& owner = p_.buffers[static_cast<size_t>(memory_of(buffer))];
      if (owner.late || (owner.kind == rt::BufferKind::arena && owner.bytes.length != 0)) return false;
    }
    return true;
  }

  void touch(Chains& chains, int launch, const rt::Step& s) {
    for (int o = 0; o < s.count; ++o) {
      const int buffer = p_.operands[static_cast<size_t>(s.first + o)];
      const bool writes = (s.element >> std::min(s.inputs > 0 ? o % s.inputs : o, 62)) & 1;
      if (buffer < 0 || p_.buffers[static_cast<size_t>(buffer)].kind == rt::BufferKind::weight) continue;
      chains.touch(launch, memory_of(buffer), writes);
    }
  }

  // ---- what it takes ----
  Candidate candidate(int k) const {
    const rt::Step& s = p_.steps[static_cast<size_t>(k)];
    rt::Program tables{};
    tables.code = p_.code.data();
    Candidate c{k, 1, static_cast<double>(s.cost)};
    if (!rt::evaluate(tables, s.parallel, typical_.data(), &c.iterations)) c.iterations = 1;
    return c;
  }

  // On all workers, one launch after the other.
  double in_turn(const Candidate& c, int workers) const {
    const double alone = c.alone();
    if (alone < static_cast<double>(costs_.alone_ns)) return alone;
    int64_t taking = static_cast<int64_t>(alone) / costs_.share_ns;
    taking = std::max<int64_t>(1, std::min({taking, c.iterations, static_cast<int64_t>(workers)}));
    if (taking == 1) return alone;
    return static_cast<double>((c.iterations + taking - 1) / taking) * c.ns + costs_.launch_ns;
  }

  double beside(double longest, double all, int workers) const { return std::max(longest, all / workers) + costs_.start_ns; }

  // ---- which steps ----
  // The cheapest way through a segment, of single launches and of sections of chains, for two workers.
  void choose(const std::vector<Candidate>& segment) {
    const int n = static_cast<int>(segment.size());
    if (n < 2) return;
    std::vector<double> best(static_cast<size_t>(n) + 1, 1e30), turn;
    std::vector<int> from(static_cast<size_t>(n) + 1, -1);
    for (const Candidate& c : segment) turn.push_back(in_turn(c, 2));
    best[0] = 0;
    for (int i = 0; i < n; ++i) {
      const auto offer = [&](int end, double ns) {
        if (best[static_cast<size_t>(i)] + ns >= best[static_cast<size_t>(end)]) return;
        best[static_cast<size_t>(end)] = best[static_cast<size_t>(i)] + ns;
        from[static_cast<size_t>(end)] = i;
      };
      offer(i + 1, turn[static_cast<size_t>(i)]);
      Chains chains(static_cast<size_t>(std::min(n - i, longest_section)));
      double in_all = 0, turns = 0;
      for (int j = i; j < n && j - i < longest_section; ++j) {
        const Candidate& c = segment[static_cast<size_t>(j)];
        chains.add(j - i, c.alone());
        touch(chains, j - i, p_.steps[static_cast<size_t>(c.step)]);
        in_all += c.alone();
        turns += turn[static_cast<size_t>(j)];
        if (chains.count() < 2) continue;
        if (const double ns = beside(chains.longest(), in_all, 2); ns * costs_.worth < turns) offer(j + 1, ns);
      }
    }
    std::vector<Section> found;
    for (int end = n; end > 0; end = from[static_cast<size_t>(end)]) {
      const int begin = from[static_cast<size_t>(end)];
      if (end - begin > 1)
        found.push_back({segment[static_cast<size_t>(begin)].step, segment[static_cast<size_t>(end) - 1].step + 1});
    }
    sections_.insert(sections_.end(), found.rbegin(), found.rend());
  }

  int most_that_pay(const Section& s, double longest, double all) const {
    int most = 2;
    for (int workers = 3; workers <= most_workers; ++workers) {
      double turns = 0;
      for (int k = s.begin; k < s.end; ++k) turns += in_turn(candidate(k), workers);
      if (beside(longest, all, workers) * costs_.worth >= turns) break;
      most = workers;
    }
    return most;
  }

  // ---- the table of steps anew ----
  void rearrange() {
    StepTable moved;
    std::vector<int32_t> place(p_.steps.size() + 1);  // of a step, and of the table's end
    const auto take = [&](int k) {
      const size_t at = static_cast<size_t>(k);
      place[at] = static_cast<int32_t>(moved.steps.size());
      moved.steps.push_back(p_.steps[at]);
      moved.comments.push_back(p_.step_comments[at]);
      moved.work.push_back(p_.work[at]);
    };
    auto section = sections_.begin();
    for (int k = 0; k < static_cast<int>(p_.steps.size());) {
      if (section == sections_.end() || section->begin != k) {
        take(k++);
        continue;
      }
      k = section->end;
      take_section(*section++, moved, take);
    }
    place.back() = static_cast<int32_t>(moved.steps.size());
    const auto follow = [&](int32_t& step) { step = place[static_cast<size_t>(step)]; };
    for (rt::Step& s : moved.steps) {
      const bool nested = s.kind == rt::StepKind::branch || s.kind == rt::StepKind::loop;
      if (nested || s.kind == rt::StepKind::repeat) follow(s.then_begin);
      if (nested) follow(s.then_end);
      if (s.kind == rt::StepKind::branch) follow(s.else_begin), follow(s.else_end);
    }
    moved.uneven = p_.uneven;
    for (UnevenRounds& u : moved.uneven) follow(u.begin), follow(u.end);
    moved.top_level = place[static_cast<size_t>(p_.top_level_steps)];
    set_table(std::move(moved));
  }

  // The chain that takes longest first: who is done takes the next.
  template <class Take>
  void take_section(const Section& s, StepTable& moved, const Take& take) {
    Chains chains(static_cast<size_t>(s.end - s.begin));
    double all = 0;
    for (int k = s.begin; k < s.end; ++k) {
      const double alone = candidate(k).alone();
      chains.add(k - s.begin, alone);
      touch(chains, k - s.begin, p_.steps[static_cast<size_t>(k)]);
      all += alone;
    }
    std::map<int, std::vector<int>> steps;  // of each chain
    for (int k = s.begin; k < s.end; ++k) steps[chains.chain_of(k - s.begin)].push_back(k);
    std::vector<int> order;
    for (const auto& [chain, unused] : steps) order.push_back(chain);
    const auto earlier = [&](int a, int b) {
      return chains.load(a) > chains.load(b) || (chains.load(a) == chains.load(b) && steps.at(a)[0] < steps.at(b)[0]);
    };
    std::sort(order.begin(), order.end(), earlier);
    const int32_t end = static_cast<int32_t>(moved.steps.size()) + s.end - s.begin + static_cast<int32_t>(order.size());
    for (size_t k = 0; k < order.size(); ++k) {
      rt::Step head{};
      head.kind = rt::StepKind::beside;
      head.symbol = head.kernel = -1;
      head.then_begin = static_cast<int32_t>(moved.steps.size()) + 1;
      head.then_end = head.then_begin + static_cast<int32_t>(steps.at(order[k]).size());
      head.else_end = end;
      if (k == 0) {
        head.carried = static_cast<int32_t>(order.size());
        head.stacked = most_that_pay(s, chains.longest(), all);
        head.cost = static_cast<int64_t>(all / static_cast<double>(order.size()));
      }
      moved.steps.push_back(head);
      moved.comments.push_back(concat("chain ", k + 1, " of ", order.size(), " side by side"));
      moved.work.emplace_back();
      for (int step : steps.at(order[k])) take(step);
    }
  }

  CompiledProgram& p_;
  const ChainCosts& costs_;
  std::vector<int64_t> typical_;
  std::vector<Section> sections_;
  std::vector<int> owners_;  // of buffers' memory, where it was asked for; -1
};

}  // namespace

void place_chains(CompiledProgram& program, const std::optional<ChainCosts>& costs) {
  if (costs && program.exchanges.empty()) ChainPlacer(program, *costs).run();
}

}  // namespace metac
