// Two compiled folders timed against each other by turns, in this process: whatever slows the machine down slows both.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "compiler/ir/tensor.h"

namespace metac {

struct PairComparison {
  int64_t pairs = 0;                   // of samples, one of each folder
  double first_ms = 0, second_ms = 0;  // medians of a run
  double change = 0;                   // of the first against the second: the median over all pairs; 0.03 is 3 % slower
  double low = 0, high = 0;            // within which it lies: with 99 % of one process, with 90 % of several
};

// Runs `folder` and `against` in the order A B B A for so many seconds, with the same inputs and threads. With one thread
// the time is the processor's, which others on the machine hardly touch. A sample is as many runs as take 0.2 ms. Source of
// the interval: order statistics of the pairs' ratios (the sign test), which asks nothing of how times are distributed.
// Throws CompileError where the folders are not ours, were not built, or have other inputs.
PairComparison compare_speed(const std::string& folder, const std::string& against,
                             const std::map<std::string, Tensor>& inputs, int threads, double seconds);

// The same of times that were taken elsewhere: sample k of both belongs together. At least one.
PairComparison compare_times(const std::vector<double>& first, const std::vector<double>& second);

// Of comparisons that were made in as many processes, at least one. Where code and memory come to lie in a process makes one
// folder faster than the other by a percent or two for as long as it lives, which no number of samples in it tells apart
// from a change: the interval is that of what the processes found (the sign test again). One process keeps its own.
PairComparison compare_processes(const std::vector<PairComparison>& processes);

}  // namespace metac
