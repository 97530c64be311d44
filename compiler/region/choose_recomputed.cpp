#include "compiler/region/choose_recomputed.h"

#include <algorithm>
#include <numeric>
#include <queue>

namespace metac {
namespace {

// Values beyond these are too many, or too small to matter: choosing is quadratic.
constexpr size_t most_candidates = 600;

// The widest gap of a value's life: [from, to] are the events on its sides.
struct Gap {
  int from = 0, to = -1;
};

Gap widest_gap(const KeptValue& v) {
  Gap best{v.maker, -1};
  int before = v.maker;
  for (int reader : v.readers) {
    if (best.to < 0 || reader - before > best.to - best.from) best = {before, reader};
    before = reader;
  }
  return best;
}

class Lives {
 public:
  Lives(const std::vector<KeptValue>& values, int steps) : values_(values), steps_(steps) {
    for (const KeptValue& v : values) gaps_.push_back(widest_gap(v));
    changes_.resize(static_cast<size_t>(steps) + 2);
  }

  const Gap& gap(size_t v) const { return gaps_[v]; }

  // Fills alive() for this choice.
  void set(const std::vector<bool>& chosen) {
    const size_t count = values_.size();
    again_.assign(count, -1);
    needed_.resize(count);
    for (std::vector<int>& steps : needed_) steps.clear();
    last_.assign(count, -1);
    std::fill(changes_.begin(), changes_.end(), 0);
    // From the last value to the first, so that a second life is known before those of what it is made from.
    for (size_t v = count; v-- > 0;) {
      const KeptValue& value = values_[v];
      last_[v] = value.readers.empty() ? value.maker : value.readers.back();
      if (chosen[v] && gaps_[v].to >= 0) {
        again_[v] = gaps_[v].to;
        for (int step : needed_[v]) {
          last_[v] = std::max(last_[v], step);
          if (step > gaps_[v].from) again_[v] = std::min(again_[v], step);
        }
      } else {
        for (int step : needed_[v]) last_[v] = std::max(last_[v], step);
      }
      if (again_[v] >= 0)
        for (int operand : value.operands) needed_[static_cast<size_t>(operand)].push_back(again_[v]);
    }
    for (size_t v = 0; v < count; ++v) {
      const KeptValue& value = values_[v];
      int first = value.maker;
      for (int operand : value.dies_into)
        if (end_of_first_life(static_cast<size_t>(operand)) == value.maker) ++first;
      first = std::min(first, value.maker + 1);
      live(first, again_[v] < 0 ? last_[v] : gaps_[v].from, value.bytes);
      if (again_[v] >= 0) live(again_[v], last_[v], value.bytes);
    }
  }

  int64_t peak() const {
    int64_t now = 0, most = 0;
    for (int step = 0; step < steps_; ++step) most = std::max(most, now += changes_[static_cast<size_t>(step)]);
    return most;
  }

  // Bytes times steps above the bound.
  double excess(int64_t bound) const {
    int64_t now = 0;
    double sum = 0;
    for (int step = 0; step < steps_; ++step) {
      now += changes_[static_cast<size_t>(step)];
      if (now > bound) sum += static_cast<double>(now - bound);
    }
    return sum;
  }

  const std::vector<int>& again() const { return again_; }

 private:
  int end_of_first_life(size_t v) const { return again_[v] < 0 ? last_[v] : gaps_[v].from; }

  void live(int first, int last, int64_t bytes) {
    if (first > last) return;
    changes_[static_cast<size_t>(first)] += bytes;
    changes_[static_cast<size_t>(last) + 1] -= bytes;
  }

  const std::vector<KeptValue>& values_;
  int steps_;
  std::vector<Gap> gaps_;
  std::vector<int> again_, last_;
  std::vector<std::vector<int>> needed_;
  std::vector<int64_t> changes_;
};

class Chooser {
 public:
  Chooser(const std::vector<KeptValue>& values, int steps, int64_t bound)
      : values_(values), bound_(bound), lives_(values, steps), chosen_(values.size()) {
    for (size_t v = 0; v < values.size(); ++v)
      if (values[v].repeatable && values[v].bytes > 0 && lives_.gap(v).to > lives_.gap(v).from + 1) candidates_.push_back(v);
    std::stable_sort(candidates_.begin(), candidates_.end(), [&](size_t a, size_t b) { return weight(a) > weight(b); });
    if (candidates_.size() > most_candidates) candidates_.resize(most_candidates);
  }

  std::vector<bool> run() {
    update();
    // Where no choice helps, an earlier one may be in the way: a chain of values that is made again as a whole needs one of
    // them kept.
    while (choose() > 0 && excess_ > 0 && take_back() > 0) {
    }
    if (lives_.peak() <= bound_) keep_what_may_stay();
    return chosen_;
  }

 private:
  double weight(size_t v) const { return static_cast<double>(values_[v].bytes) * (lives_.gap(v).to - lives_.gap(v).from); }

  void update() {
    lives_.set(chosen_);
    excess_ = lives_.excess(bound_);
  }

  // Returns how many were chosen.
  int choose() {
    // Gains mostly shrink as others are chosen: an old gain that is the best even after it was looked at again is taken.
    std::priority_queue<std::pair<double, size_t>> open;
    for (size_t v : candidates_)
      if (!chosen_[v]) open.push({score(v), v});
    std::vector<size_t> useless;
    int chosen = 0;
    while (excess_ > 0 && !open.empty()) {
      auto [old, v] = open.top();
      open.pop();
      const double now = score(v);
      if (now <= 0) {
        useless.push_back(v);
        continue;
      }
      if (!open.empty() && now < open.top().first * (1 - 1e-9)) {
        open.push({now, v});
        continue;
      }
      chosen_[v] = true;
      order_.push_back(v);
      ++chosen;
      update();
      // What was of no use may be now: that its operands are made again, too, for example.
      for (size_t u : useless) open.push({score(u), u});
      useless.clear();
    }
    update();
    return chosen;
  }

  // Keeps again what is better kept, one after the other while that helps. Returns how many.
  int take_back() {
    int taken = 0;
    for (;;) {
      size_t best = order_.size();
      double least = excess_;
      for (size_t k = 0; k < order_.size(); ++k) {
        chosen_[order_[k]] = false;
        lives_.set(chosen_);
        if (const double excess = lives_.excess(bound_); excess < least) least = excess, best = k;
        chosen_[order_[k]] = true;
      }
      if (best == order_.size()) break;
      chosen_[order_[best]] = false;
      order_.erase(order_.begin() + static_cast<int64_t>(best));
      ++taken;
      excess_ = least;
    }
    update();
    return taken;
  }

  double score(size_t v) {
    chosen_[v] = true;
    lives_.set(chosen_);
    const double gain = excess_ - lives_.excess(bound_);
    chosen_[v] = false;
    return gain / std::max(values_[v].cost, 1e-12);
  }

  void keep_what_may_stay() {
    std::stable_sort(order_.begin(), order_.end(), [&](size_t a, size_t b) { return values_[a].cost > values_[b].cost; });
    for (size_t v : order_) {
      chosen_[v] = false;
      lives_.set(chosen_);
      if (lives_.peak() > bound_) chosen_[v] = true;
    }
  }

  const std::vector<KeptValue>& values_;
  int64_t bound_;
  Lives lives_;
  std::vector<bool> chosen_;
  std::vector<size_t> candidates_, order_;
  double excess_ = 0;
};

}  // namespace

RecomputePlan plan_of(const std::vector<KeptValue>& values, const std::vector<bool>& chosen, int steps) {
  Lives lives(values, steps);
  lives.set(chosen);
  RecomputePlan plan{lives.again(), lives.peak(), 0, false};
  for (size_t v = 0; v < values.size(); ++v)
    if (plan.again[v] >= 0) plan.cost += values[v].cost;
  return plan;
}

RecomputePlan choose_recomputed(const std::vector<KeptValue>& values, int steps, int64_t bound) {
  RecomputePlan plan = plan_of(values, Chooser(values, steps, bound).run(), steps);
  plan.fits = plan.peak <= bound;
  return plan;
}

int64_t least_bound(const std::vector<KeptValue>& values, int steps) {
  int64_t most = plan_of(values, std::vector<bool>(values.size()), steps).peak, least = 0;
  const int64_t close = std::max<int64_t>(most / 100, 1);
  while (most - least > close) {
    const int64_t middle = least + (most - least) / 2;
    RecomputePlan plan = choose_recomputed(values, steps, middle);
    if (plan.fits)
      most = std::min(middle, plan.peak);
    else
      least = middle;
  }
  return most;
}

}  // namespace metac
