#include "compiler/target/cpu/strategies/few_rows.h"

#include <algorithm>
#include <utility>

#include "compiler/loops/loop_transforms.h"
#include "compiler/machine/cpu_costs.h"
#include "compiler/support/diagnostic.h"
#include "compiler/target/cpu/strategies/lower_group.h"

namespace metac {
namespace {

// The kernel's stages as one node that is done where `condition` holds, with the locals that they share.
LoopNode body_where(Expr condition, LoopNode& root) {
  LoopNode body;
  body.guard = condition;
  body.locals = std::exchange(root.locals, {});
  body.children = std::exchange(root.children, {});
  return body;
}

}  // namespace

Kernel with_few_rows(Kernel blocks, const Group& group, Expr rows, const LoweringContext& context) {
  Group row_by_row = group;
  row_by_row.strategy.reset();
  Kernel begun;  // its axes, locals and arguments go on where those of the blocks end
  begun.arguments = blocks.arguments;
  begun.next_axis = blocks.next_axis;
  begun.next_local = blocks.next_local;
  Kernel single = lower_group(row_by_row, context, std::move(begun));
  std::vector<Loop>& loops = blocks.root.loops;
  METAC_ASSERT(single.root.loops.size() == loops.size(), "rows one by one under ", single.root.loops.size(),
               " loops, blocks of them under ", loops.size());

  const Expr few = rows <= Expr(cpu_costs.few_rows);
  LoopNode many_body = body_where(logical_not(few), blocks.root), few_body = body_where(few, single.root);
  for (size_t k = 0; k < loops.size(); ++k) {
    const Loop& own = single.root.loops[k];
    substitute_axis(few_body, own.axis, axis(loops[k].axis));
    if (k + 1 == loops.size()) loops[k].extent = select(few, own.extent, loops[k].extent);
  }
  few_body.comment = concat("up to ", cpu_costs.few_rows, " rows, one by one");
  blocks.root.children = {std::move(few_body), std::move(many_body)};
  blocks.arguments = std::move(single.arguments);
  blocks.scratch.insert(blocks.scratch.end(), single.scratch.begin(), single.scratch.end());
  blocks.next_axis = single.next_axis;
  blocks.next_local = single.next_local;
  blocks.schedule.push_back(concat("up to ", cpu_costs.few_rows, " rows one by one:"));
  for (std::string& line : single.schedule) blocks.schedule.push_back("  " + line);
  return blocks;
}

}  // namespace metac
