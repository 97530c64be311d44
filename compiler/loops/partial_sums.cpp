#include "compiler/loops/partial_sums.h"

#include <algorithm>
#include <cmath>

#include "compiler/loops/loop_transforms.h"
#include "compiler/machine/cpu_costs.h"
#include "compiler/support/checked.h"

namespace metac {
namespace {

constexpr int64_t chains = cpu_costs.chains;

// `level` is the outermost loop that the parts have, and each has `steps` iterations of it.
struct Cut {
  size_t level = 0;
  int64_t steps = 1;
};

// Empty where the sum is no longer than a few parts.
std::optional<Cut> cut_into_parts(const std::vector<Loop>& loops, bool lanes) {
  constexpr int64_t open = 4096;            // an extent known only at run time is taken for that
  const int64_t multiple = lanes ? 16 : 1;  // whole vectors of any target
  double all = 1;
  int64_t inside = 1;
  for (const Loop& l : loops) all *= static_cast<double>(l.extent.if_int() ? l.extent.as_int() : open);
  // As many parts as one chain of a part has steps.
  const int64_t length = std::max<int64_t>(
      static_cast<int64_t>(std::sqrt(all * static_cast<double>(lanes ? multiple : chains))), lanes ? 512 : 64);
  if (all < 4 * static_cast<double>(length)) return std::nullopt;
  for (size_t level = loops.size(); level-- > 0;) {
    const int64_t* extent = loops[level].extent.if_int();
    if (extent && saturating_mul(inside, *extent) <= 2 * length && level > 0) {
      inside *= *extent;
      continue;
    }
    const int64_t steps = std::max<int64_t>(length / inside, 1),
                  even = extent ? largest_divisor(*extent, 2 * steps, level + 1 == loops.size() ? multiple : 1) : 0;
    return Cut{level, even * 4 > steps ? even : steps};
  }
  return std::nullopt;
}

Expr value_of(int local, DType dtype) { return load(first_local + local, dtype, {}); }

bool is_small(Expr body) {
  int nodes = 0;
  visit(body, [&](Expr) { ++nodes; });
  return nodes <= 24;
}

// Steps of the innermost loop side by side, each with a local of its own in place of the part's.
LoopNode in_chains(Kernel& kernel, LoopNode& part, const LoopNode& steps, DType dtype) {
  const Loop last = steps.loops.back();
  const Loop step{kernel.next_axis++, Expr(last.extent.as_int() / chains), last.kind, {}};
  LoopNode out = steps;
  out.loops.back() = step;
  out.assigns.clear();
  for (int64_t k = 0; k < chains; ++k) {
    LoopNode one = steps;
    substitute_axis(one, last.axis, axis(step.axis) * Expr(chains) + Expr(k));
    if (k > 0) {
      part.locals.push_back({kernel.next_local++, dtype, {}});
      part.assigns.push_back({first_local + part.locals.back().id, {}, identity_of(Reduce::add, dtype), {}});
      one.assigns[0].target = first_local + part.locals.back().id;
    }
    out.assigns.push_back(one.assigns[0]);
  }
  return out;
}

}  // namespace

bool can_reduce_lanes(const Loop& loop, Expr body, Reduce reduce, int64_t lanes) {
  if (reduce == Reduce::logical_and || reduce == Reduce::logical_or) return false;
  if (loop.extent.if_int() && loop.extent.as_int() < lanes) return false;
  bool varies = false;
  visit(body, [&](Expr n) {
    if (n->kind == ExprKind::load && !n->args.empty()) varies |= uses_axis(n->args[0], loop.axis);
  });
  return varies && can_vectorise(loop, {body}, {});
}

LoopNode lower_sum(Kernel& kernel, const SumLoops& sum) {
  LoopNode steps;
  steps.loops = sum.loops;
  steps.assigns = {{first_local + sum.local, {}, sum.body, Reduce::add}};
  if (sum.lanes) steps.lane_reduced = sum.local;
  const auto cut = cut_into_parts(sum.loops, sum.lanes);
  if (!cut) return steps;

  const auto at = sum.loops.begin() + static_cast<int64_t>(cut->level);
  const bool even = at->extent.if_int() && at->extent.as_int() % cut->steps == 0;
  const Loop number{kernel.next_axis++,
                    even ? Expr(at->extent.as_int() / cut->steps) : ceil_div(at->extent, Expr(cut->steps)),
                    LoopKind::serial,
                    {}};
  const Expr first = axis(number.axis) * Expr(cut->steps);
  const Loop rest{kernel.next_axis++, even ? Expr(cut->steps) : min(Expr(cut->steps), at->extent - first), at->kind, {}};
  LoopNode part;
  part.loops.assign(sum.loops.begin(), at);
  part.loops.push_back(number);
  part.locals = {{kernel.next_local++, sum.accumulator, {}}};
  part.assigns = {{first_local + part.locals[0].id, {}, identity_of(Reduce::add, sum.accumulator), {}}};

  steps.loops.assign(at, sum.loops.end());
  if (cut->steps > 1)
    steps.loops[0] = rest;
  else
    steps.loops.erase(steps.loops.begin());
  steps.assigns[0].target = first_local + part.locals[0].id;
  if (sum.lanes) steps.lane_reduced = part.locals[0].id;
  substitute_axis(steps, at->axis, cut->steps > 1 ? first + axis(rest.axis) : first);
  const int64_t* innermost = steps.loops.back().extent.if_int();
  const bool beside = sum.alone && !sum.lanes && innermost && *innermost % chains == 0 && is_small(sum.body);
  part.children.push_back(beside ? in_chains(kernel, part, steps, sum.accumulator) : steps);

  LoopNode total;
  std::vector<Expr> sums;
  for (const Local& l : part.locals) sums.push_back(value_of(l.id, sum.accumulator));
  total.assigns = {
      {first_local + sum.local, {}, sums.size() == 1 ? sums[0] : (sums[0] + sums[1]) + (sums[2] + sums[3]), Reduce::add}};
  part.children.push_back(std::move(total));
  return part;
}

}  // namespace metac
