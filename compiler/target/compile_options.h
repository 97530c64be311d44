// What people choose when they compile, as the middle of the compiler sees it.
#pragma once
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/dtype.h"
#include "compiler/machine/chain_costs.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/machine/external_libraries.h"
#include "compiler/region/fusion/fuse.h"

namespace metac {

class Choices;
class Target;

// The CPU, which prepare programs are always made for: they run once.
const Target& target_cpu();

struct CompileOptions {
  const Target* target = &target_cpu();  // of the run program's kernels (compiler/target/target.h)
  CpuTarget cpu;
  ExternalLibraries external;  // of a GPU's program
  Fusion fusion = Fusion::best;
  DType precision = DType::f32;   // bf16, i8: sums of products may read their operands rounded to it, where the CPU has such
                                  // products (target/cpu/half_products.h, layouts/byte_runs.h); i8: where weights have 8
                                  // bits or fewer
  std::vector<std::string> keep;  // NodePatterns: these nodes read float32 none the less
  int winograd = 4;  // the largest m of minimal filtering F(m x m, 3 x 3); below 2: none
  Choices* choices =
      nullptr;  // decisions to be taken another way than the analytic model would; it hears what there was to decide
  std::string print_after;  // a pass name: its result is written to `trace`
  std::string emit;         // "meta", "fused", "loops": the stage's text is written to `trace`
  bool time_passes = false;
  std::ostream* trace = nullptr;
  int64_t max_tensor_bytes = int64_t{1} << 36;
  int64_t memory_budget =
      0;  // bytes that a run may take: arena, inputs, outputs and weights (compiler/region/recompute.h); 0: no bound
  std::optional<ChainCosts> chains;  // what launches side by side are weighed by, in place of the target's own costs
  std::vector<std::pair<size_t, size_t>> next_values;  // output, input: the caller would have both in one memory, as one is
                                                       // the other's next value (CompiledPort::overwrites)
  double budget_margin =
      0;  // of the budget, left for what recompute does not see: layouts and blocks that do not fit together
};

}  // namespace metac
