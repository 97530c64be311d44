// A bench report against an earlier one.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace metac {

struct BaselineComparison {
  double median_change = 0, least_change = 0;  // of the times: 0.05 is 5 % slower
  double memory_change = 0;                    // of the arena; 0 where either is not known
  bool slower = false, larger = false;         // than the threshold allows
};

// Both are what bench_report() makes. Slower is a run whose least and median time are both: what else the machine does makes
// medians longer, and least times hardly. `threshold`: 0.05 allows 5 %. Throws CompileError where `baseline` is no report of
// one model's runs; `path` serves the message.
BaselineComparison compare_with_baseline(const nlohmann::ordered_json& report, const std::string& baseline,
                                         const std::string& path, double threshold);

}  // namespace metac
