// Numbers of compiler/machine/cpu_costs.h as this machine has them, for those that a kernel alone can measure. What a choice
// is worth (lanes, packing, parts, stacks) no such kernel tells: it is fitted by timing networks.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "compiler/api/bench/machine_peak.h"

namespace metac {

struct MeasuredCost {
  std::string name;             // of CpuCosts, in its order
  std::optional<double> value;  // nothing: this machine does not say, or has not the threads or caches for it
  double in_table = 0;
  bool is_count = false;  // of whole bytes, ways, instructions
};

// Takes about two seconds, on one thread or two.
std::vector<MeasuredCost> measure_cpu_costs(const CpuTarget& cpu, const MachinePeak& peak);

// Initialisers for CpuCosts, a line each with what the table has.
std::string row_text(const std::vector<MeasuredCost>& costs);

}  // namespace metac
