// The decisions about one contraction that `metac compile --tune` may take another way (choices.h): offered here with all
// candidates, the analytic model's first.
#pragma once
#include <optional>

#include "compiler/kernel/register_tile.h"
#include "compiler/passes/choices.h"
#include "compiler/passes/choose_lanes.h"
#include "compiler/passes/compile.h"

namespace metac {

// Minimal filtering, or (empty) none.
std::optional<WinogradPlan> choose_algorithm(const Definition& d, const LaneChoice& w, bool prepared,
                                             const CompileOptions& options);

// Sets the register tile and the share of the cache. `plan.about` is known.
void choose_tile_and_cache(ContractionPlan& plan, const SumShape& sum, int lanes, int registers, Choices* choices);

}  // namespace metac
