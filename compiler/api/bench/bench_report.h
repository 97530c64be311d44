// What `metac bench` has to say about one model: times, memory, and how far from the machine's limits it runs.
#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "compiler/api/bench/machine_peak.h"
#include "compiler/jit/jit_program.h"

namespace metac {

struct BenchTimes {
  int64_t runs = 0;
  double min_ms = 0, median_ms = 0, p90_ms = 0, p99_ms = 0;  // of one run
  double ready_ms = 0, first_ms = 0;                         // until the first run could start; the first run
};

// Sorts. At least one time.
BenchTimes summarise_times(std::vector<double> milliseconds);

struct BenchMemory {
  int64_t arena = 0;             // bytes of intermediate values, as the runs had them
  std::optional<int64_t> least;  // the lower bound for them, where they are planned ahead
  int64_t held = 0;              // arena, scratch, values whose size the data decide, outputs
  int64_t weights = 0;
  int64_t peak_resident = 0;  // of the process that ran; 0: not its own process
};

struct BenchResult {
  BenchTimes times;
  BenchMemory memory;
  std::vector<StepProfile> steps;    // of one run: how often each step was done and what it did; its time does not count
  std::vector<StepProfile> profile;  // of all profiled runs; empty: not asked for
  int64_t profiled_runs = 0;
  double profiled_ms = 0;  // the median of one
};

// Keys: runs, min_ms, median_ms, p90_ms, p99_ms, runs_per_second, ready_ms, first_ms, operations, gflops, memory;
// with a peak also peak, bound_ms, bound_share, arithmetic_ms; with a profile also profiled_runs, profiled_ms, profile. What
// is not known is null.
//
// operations are those of the steps of a run (compiler/tensor/work.h), counted in a run. bound_ms is the sum over the steps
// that have any of the time that the slower of two limits takes: operations at the measured peak, and operands and results
// once at the measured bandwidth. arithmetic_ms has the first limit only. A share is the limit over the median. An algorithm
// with fewer operations may exceed it, and so may operands that stay in a cache.
nlohmann::ordered_json bench_report(const BenchResult& result, const MachinePeak* peak);

// The report for a terminal, ending in a newline.
std::string bench_text(const nlohmann::ordered_json& report);

}  // namespace metac
