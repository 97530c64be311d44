#include "compiler/target/cpu/strategies/parallel_loops.h"

#include <algorithm>
#include <functional>

#include "compiler/ir/hints.h"
#include "compiler/loops/loop_transforms.h"
#include "compiler/machine/cpu_costs.h"
#include "compiler/support/checked.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

// Of one pass through the node: children are variants of each other, or one of them has nearly all of it.
int64_t work_inside(const LoopNode& node, const std::function<int64_t(Expr)>& typical) {
  int64_t work = 1;
  for (const LoopNode& child : node.children) work = std::max(work, work_inside(child, typical));
  for (const Loop& l : node.loops) work = saturating_mul(work, std::max<int64_t>(1, typical(l.extent)));
  return work;
}

// An extent, or what is likely where it is open: as long as it typically is, and some length where nobody knows or where
// that is short, as a batch is.
std::function<int64_t(Expr)> typical_extents(const Kernel& kernel, const std::vector<Symbol>& symbols) {
  return [bounds = bounds_of(kernel, symbols), &symbols](Expr extent) -> int64_t {
    constexpr int64_t some = 256;
    if (extent.if_int()) return extent.as_int();
    const Interval range = bounds.interval(extent);
    return std::clamp<int64_t>(std::max(some, hinted_value(extent, symbols)), std::max<int64_t>(range.low.clamped(), 1),
                               std::max<int64_t>(range.high.clamped(), 1));
  };
}

// Are the loops before a run so few iterations, as a batch of one is, that the run is to be shared out as well? Where an
// extent is open: it may be of any length.
bool few_outside(const std::vector<Loop>& loops, size_t inner, const std::vector<Symbol>& symbols) {
  constexpr int64_t few = 16;
  if (inner >= loops.size()) return false;
  int64_t outside = 1;
  bool open = !loops[inner].extent.if_int();
  for (size_t k = 0; k < inner; ++k) {
    if (loops[k].kind == LoopKind::vector) return false;
    outside = saturating_mul(outside, std::max<int64_t>(1, hinted_value(loops[k].extent, symbols)));
    open |= !loops[k].extent.if_int();
  }
  return open && outside < few;
}

}  // namespace

double cost_of_rows(const Kernel& kernel, const std::vector<Symbol>& symbols) {
  const auto typical = typical_extents(kernel, symbols);
  double work = 0;
  for (const LoopNode& stage : kernel.root.children) work += static_cast<double>(work_inside(stage, typical));
  return std::max(1.0, work / 8);
}

void parallelise_outer_loops(Kernel& kernel, const std::vector<Symbol>& symbols) {
  LoopNode stage = std::move(kernel.root.children[0]);
  kernel.root.children.clear();
  std::vector<Local> kept_locals = kernel.root.locals;
  const auto typical = typical_extents(kernel, symbols);
  int64_t work = 1;
  for (const LoopNode& child : stage.children) work = std::max(work, work_inside(child, typical));
  size_t inner = stage.loops.size();
  constexpr int64_t enough = cpu_costs.work_of_a_task;
  while (inner > 0 && work < enough) work = saturating_mul(work, std::max<int64_t>(1, typical(stage.loops[--inner].extent)));
  const bool long_run = inner == 0 && !stage.loops.empty() && work > 2 * enough && typical(stage.loops[0].extent) > 1;
  if (long_run || few_outside(stage.loops, inner, symbols)) {
    // A long run is cut into chunks, of whole vectors where lanes run along it.
    Loop& run = stage.loops[inner];
    const int64_t whole = run.kind == LoopKind::vector ? 16 : 1, length = std::max<int64_t>(1, typical(run.extent));
    const int64_t chunk = std::max(whole, saturating_mul(enough, length) / std::max<int64_t>(1, work) / whole * whole);
    Loop chunks{kernel.next_axis++, ceil_div(run.extent, chunk), LoopKind::parallel};
    Expr start = axis(chunks.axis) * Expr(chunk);
    Loop part{kernel.next_axis++, min(Expr(chunk), run.extent - start), run.kind};
    substitute_axis(stage, run.axis, start + axis(part.axis));
    stage.loops[inner] = part;
    for (size_t k = 0; k < inner; ++k) stage.loops[k].kind = LoopKind::parallel;
    stage.loops.insert(stage.loops.begin() + static_cast<int64_t>(inner), chunks);
    kernel.schedule.push_back(concat("split the run into chunks of ", chunk));
    ++inner;
    if (!long_run) work = saturating_mul(work, chunk) / length;
  } else {
    for (size_t k = 0; k < inner; ++k)
      if (stage.loops[k].kind != LoopKind::vector)
        stage.loops[k].kind = LoopKind::parallel;
      else
        inner = k;
  }
  if (inner > 0) kernel.schedule.push_back(concat("parallelise ", inner, " loops"));
  kernel.root.loops.assign(stage.loops.begin(), stage.loops.begin() + static_cast<int64_t>(inner));
  stage.loops.erase(stage.loops.begin(), stage.loops.begin() + static_cast<int64_t>(inner));
  kernel.root.children.push_back(std::move(stage));
  kernel.cost = std::max<double>(1, static_cast<double>(work) / 8);
}

}  // namespace metac
