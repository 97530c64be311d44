// Which values to make a second time instead of keeping them from their first readers to their last ones: the choice alone,
// on lives in steps, whatever the steps are. Chen and others, "Training deep nets with sublinear memory cost" (2016), is the
// idea; here any value may be made again, from whatever is kept or itself made again, and the least cost is looked for under
// a bound.
//
// A value that is chosen has two lives: from its maker to the last reader before its widest gap, and from the first reader
// behind the gap (or the first value that is made again from it) to the last. What it is made of lives until then, or is
// made again too.
//
// The choice is greedy: the value that takes most bytes-times-steps above the bound for its cost, until nothing is above;
// then those that turned out not to be needed are kept after all, the dearest first.
#pragma once
#include <cstdint>
#include <vector>

namespace metac {

struct KeptValue {
  int64_t bytes = 0;
  int maker = 0;               // the step that makes it
  std::vector<int> readers;    // steps, ascending
  std::vector<int> operands;   // values that making it again reads, by index; all made before it
  std::vector<int> dies_into;  // operands of the same size whose place it takes where they die in its maker
  double cost = 0;             // of making it again; seconds, or anything that adds up
  bool repeatable = false;     // may it be made again?
};

struct RecomputePlan {
  std::vector<int> again;  // by value: the step in front of which it is made a second time; -1: it is kept
  int64_t peak = 0;        // the most bytes alive at one step
  double cost = 0;
  bool fits = false;  // peak <= bound
};

// The most bytes alive at one step with these values made again; fills in the steps.
RecomputePlan plan_of(const std::vector<KeptValue>& values, const std::vector<bool>& chosen, int steps);
RecomputePlan choose_recomputed(const std::vector<KeptValue>& values, int steps, int64_t bound);
// The least bound that choose_recomputed meets, within a hundredth of what is kept without it.
int64_t least_bound(const std::vector<KeptValue>& values, int steps);

}  // namespace metac
