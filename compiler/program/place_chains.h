// Launches that need nothing of each other, side by side. Of the launches of the top level that follow one another, those
// that touch the same memory, but for what all of them only read, are one chain; where there are several chains (two
// networks, the branches of one, the updates of an optimiser), a worker may do a whole chain while others do the rest, and
// nobody waits within it. That pays where launches are short, or have few iterations: a launch that keeps all workers busy
// for long gains nothing. Chains stand one behind the other in the table of steps (StepKind::beside, runtime/program.h), so
// that a run without workers does them in that order; bits do not depend on it.
#pragma once
#include <optional>

#include "compiler/machine/chain_costs.h"
#include "compiler/program/program.h"

namespace metac {

// Plans the memory before and after: chains that would take much more of it are left in turn. Values whose size a run
// decides are none of theirs. Without costs, and where processes exchange values behind certain steps, nothing is done.
void place_chains(CompiledProgram& program, const std::optional<ChainCosts>& costs);

}  // namespace metac
