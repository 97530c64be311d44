// Is a region still one? What every pass between fusion and the program must leave as it was.
#pragma once
#include <string_view>

#include "compiler/ir/graph.h"
#include "compiler/region/fused_region.h"

namespace metac {

// Aborts with METAC_ASSERT, naming the pass, the value and what is wrong, where
//   * a definition is none: an axis beyond its domain, an index too many, a body of another dtype, a reduced value where
//     nothing is reduced;
//   * the stages of a group do not share their first axes, or a value of its own is read or written elsewhere;
//   * a value is read before all that write it (each a part) have run;
//   * a group's strategy does not go with it (Strategy::misfit);
//   * a view has no source, repeats overlap.
// Values that no item of the region writes come from outside: inputs, constants, what `prepare` makes, what a nested region
// captures. Cheap beside every pass (each expression is walked once), so that it is always on.
void verify_region(const FusedRegion& region, const Graph& graph, std::string_view pass);

// The first of these alone.
void verify_definition(const Definition& d, const Graph& graph, std::string_view pass);

}  // namespace metac
