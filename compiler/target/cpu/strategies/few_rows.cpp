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

std::string few_in_words() { return concat("up to ", cpu_costs.few_rows, " rows"); }

// What both bodies need of the second one.
void join(Kernel& kernel, Kernel& second, const std::string& what) {
  kernel.arguments = std::move(second.arguments);
  kernel.scratch.insert(kernel.scratch.end(), second.scratch.begin(), second.scratch.end());
  kernel.next_axis = second.next_axis;
  kernel.next_local = second.next_local;
  kernel.schedule.push_back(what + ":");
  for (std::string& line : second.schedule) kernel.schedule.push_back("  " + line);
}

// The parallel loops of a body as one number; returns how many iterations they have. Loops in these stay: a worker goes
// through the chunks of a sum one after the other.
Expr number_iterations(LoopNode& root, Expr number) {
  const auto first_inside =
      std::find_if(root.loops.begin(), root.loops.end(), [](const Loop& l) { return l.kind != LoopKind::parallel; });
  std::vector<Loop> shared_out(root.loops.begin(), first_inside);
  root.loops.erase(root.loops.begin(), first_inside);
  Expr all = 1;
  for (size_t k = shared_out.size(); k-- > 0;) {
    const Expr rest = floor_div(number, all);
    substitute_axis(root, shared_out[k].axis, k > 0 ? floor_mod(rest, shared_out[k].extent) : rest);
    all = all * shared_out[k].extent;
  }
  return all;
}

}  // namespace

Kernel continued(const Kernel& first) {
  Kernel begun;
  begun.arguments = first.arguments;
  begun.next_axis = first.next_axis;
  begun.next_local = first.next_local;
  return begun;
}

Kernel either_body(Kernel few, Kernel many, Expr condition, const std::string& what) {
  const int number = few.next_axis++;
  const Expr of_few = number_iterations(few.root, axis(number)), of_many = number_iterations(many.root, axis(number));
  LoopNode many_body = body_where(logical_not(condition), many.root), few_body = body_where(condition, few.root);
  many_body.loops = std::exchange(many.root.loops, {});
  few_body.loops = std::move(few.root.loops);
  few_body.comment = what;
  many.root.loops = {{number, select(condition, of_few, of_many), LoopKind::parallel, {}}};
  many.root.children = {std::move(few_body), std::move(many_body)};
  join(many, few, what);
  return many;
}

Kernel with_few_rows(Kernel blocks, const Group& group, Expr rows, const LoweringContext& context) {
  Group row_by_row = group;
  row_by_row.strategy.reset();
  Kernel single = lower_group(row_by_row, context, continued(blocks));
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
  few_body.comment = few_in_words() + " one by one";
  blocks.root.children = {std::move(few_body), std::move(many_body)};
  join(blocks, single, few_in_words() + " one by one");
  return blocks;
}

}  // namespace metac
