// The decisions about one contraction that `metac compile --tune` may take another way (choices.h): offered here with all
// candidates, the analytic model's first.
#pragma once
#include <optional>

#include "compiler/target/choices.h"
#include "compiler/target/compile_options.h"
#include "compiler/target/cpu/layouts/choose_lanes.h"
#include "compiler/target/cpu/strategies/cpu_strategies.h"
#include "compiler/target/cpu/tiles/register_tile.h"

namespace metac {

// Minimal filtering, or (empty) none.
std::optional<WinogradPlan> choose_algorithm(const Definition& d, const LaneChoice& w, bool prepared,
                                             const CompileOptions& options, const std::vector<Symbol>& symbols);

// How a sum goes through runs of steps (compact_operand.h): their scale leaves the product of few points, or they are sums
// of products of bytes (byte_runs.h).
enum class Runs { none, scaled, of_bytes };

// The register tile, the share of the cache and the steps that are printed out, of a contraction that `about` names; empty
// where a group narrower than a vector (`narrow`) would have too many of them. `data`: the address of the operand without
// the lanes; runs: of the other one.
std::optional<ContractionPlan> plan_contraction(const Definition& d, const LaneChoice& w, bool narrow, Runs runs, Expr data,
                                                const CpuTarget& cpu, const std::vector<Symbol>& symbols,
                                                const std::string& about, Choices* choices);

}  // namespace metac
