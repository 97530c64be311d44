// A contraction as one kernel: its axes sorted by how the result is stored, collapsed where they are one run of memory, and
// computed in register tiles (tiled_sum.h) as the plan says.
#pragma once
#include "compiler/loops/loop_tree.h"
#include "compiler/target/cpu/strategies/cpu_strategies.h"

namespace metac {

// Of the axes that points are taken from for a tile, the one that it runs along: `usual` has more of them by the typical
// sizes of open dims. Where each run has its own sizes of both, of rows that do not lie one behind the other (a batch of
// texts, stored head by head), or where both are short, the other one is right for some: a token of each of many texts.
enum class Tiled { usual, other };
struct TiledExtents {
  Expr usual, other;  // how many points there are along each; other is empty where there is none
};

// few_rows: the few bits of an operand are widened in registers, not panel by panel. begun: whose axes, locals and arguments
// the kernel's go on behind. extents: which there are.
Kernel lower_contraction(const Group& group, const ContractionPlan& plan, const LoweringContext& context, bool few_rows,
                         Kernel begun, Tiled tiled, TiledExtents* extents);

}  // namespace metac
