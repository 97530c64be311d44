// What `metac bench` has to say about one model: times, memory, and how far from the machine's limits it runs.
#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "compiler/api/machine_peak.h"
#include "compiler/kernel/program.h"

namespace metac {

struct BenchTimes {
  int64_t runs = 0;
  double min_ms = 0, median_ms = 0, p90_ms = 0, p99_ms = 0;  // of one run
  double ready_ms = 0, first_ms = 0;                         // until the first run could start; the first run
};

// Sorts. At least one time.
BenchTimes summarise_times(std::vector<double> milliseconds);

struct KernelTime {
  std::string name;
  int64_t launches = 0, ns = 0;
};

struct BenchMemory {
  int64_t arena = 0, live_set = 0, weights = 0;  // bytes: intermediate values, the lower bound for them, parameters
  int64_t peak_resident = 0;                     // of the process that ran; 0: not its own process
};

struct BenchResult {
  BenchTimes times;
  BenchMemory memory;
  std::vector<KernelTime> profile;                 // one row a kernel or routine, any order; empty: not asked for
  std::map<std::string, ContractionWork> kernels;  // operations and bytes of one launch, by name
  std::vector<ContractionWork> contractions;
};

// Keys: runs, min_ms, median_ms, p90_ms, p99_ms, runs_per_second, ready_ms, first_ms, operations, gflops, memory;
// with a peak also peak, bound_ms, bound_share, arithmetic_ms; with a profile also profile.
//
// bound_ms is the sum over the contractions of the time that the slower of two limits takes: direct operations at the
// measured peak, and operands and result once at the measured bandwidth. arithmetic_ms has the first limit only. A share
// is the limit over the median. An algorithm with fewer operations may exceed it, and so may operands that stay in a cache.
nlohmann::ordered_json bench_report(const BenchResult& result, const MachinePeak* peak);

// The report for a terminal, ending in a newline.
std::string bench_text(const nlohmann::ordered_json& report);

}  // namespace metac
