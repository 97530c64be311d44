#include "compiler/loops/separate_window.h"

#include <algorithm>

#include "compiler/loops/loop_transforms.h"
#include "compiler/machine/cpu_costs.h"
#include "compiler/support/checked.h"
#include "compiler/tensor/axes.h"

namespace metac {
namespace {

// Loops by their places in `kept` and `reduced`; the body sees them as kept + distance * reduced alone.
struct WindowAxis {
  size_t kept = 0, reduced = 0;
  int64_t distance = 1;
  double saved = 1;
};

int64_t extent_of(const Loop& loop) { return loop.extent.if_int() ? loop.extent.as_int() : 0; }

// The body over `place`, the element of the row, instead of both loops; empty: it depends on more than their sum.
Expr along_row(Expr body, const Loop& kept, const Loop& reduced, int64_t distance, Expr place) {
  const Expr moved = place - axis(reduced.axis) * Expr(distance);
  const Expr out = rewrite(body, [&](Expr n) { return n == axis(kept.axis) ? moved : Expr(); });
  return uses_axis(out, reduced.axis) ? Expr() : out;
}

std::optional<int64_t> distance_of(Expr body, const Loop& kept, const Loop& reduced) {
  std::optional<int64_t> distance;
  visit(body, [&](Expr n) {
    if (distance || n->kind != ExprKind::load || n->args.size() != 1) return;
    const Expr outer = stride_of(n->args[0], kept.axis), inner = stride_of(n->args[0], reduced.axis);
    if (!outer || !inner || !outer.if_int() || !inner.if_int() || outer.is_int(0) || inner.is_int(0)) return;
    if (inner.as_int() % outer.as_int() == 0 && inner.as_int() / outer.as_int() > 0)
      distance = inner.as_int() / outer.as_int();
  });
  return distance;
}

std::optional<WindowAxis> choose_axis(const Stage& s) {
  int64_t steps = 1;
  for (const Loop& l : s.reduced) steps = saturating_mul(steps, extent_of(l));
  // Where none is clearly better, the innermost, which has the shortest row.
  std::optional<WindowAxis> best;
  for (size_t w = s.kept.size(); w-- > 0;)
    for (size_t q = 0; q < s.reduced.size(); ++q) {
      const int64_t width = extent_of(s.kept[w]), taps = extent_of(s.reduced[q]);
      const auto distance = width > 0 && steps > 0 ? distance_of(s.body, s.kept[w], s.reduced[q]) : std::nullopt;
      if (!distance) continue;
      const double row = static_cast<double>(width + *distance * (taps - 1)), together = static_cast<double>(width * steps);
      const double saved =
          together / (row * (static_cast<double>(steps / taps) + cpu_costs.row_of_sums) + static_cast<double>(width * taps));
      if (saved <= (best ? best->saved : 1) * cpu_costs.clearly_less ||
          !along_row(s.body, s.kept[w], s.reduced[q], *distance, axis(s.kept[w].axis)))
        continue;
      best = {w, q, *distance, saved};
    }
  return best;
}

}  // namespace

std::optional<SeparatedWindow> separate_window(Kernel& kernel, const Stage& s, int accumulator, DType dtype) {
  const auto chosen = s.reduced.size() < 2 ? std::nullopt : choose_axis(s);
  if (!chosen) return std::nullopt;
  const Loop &kept = s.kept[chosen->kept], &reduced = s.reduced[chosen->reduced];
  const Loop place{kernel.next_axis++,
                   kept.extent + reduced.extent * Expr(chosen->distance) - Expr(chosen->distance),
                   LoopKind::serial,
                   {}};
  const auto further = s.kept.begin() + static_cast<int64_t>(chosen->kept) + 1;
  Shape dims = {place.extent};
  for (auto l = further; l != s.kept.end(); ++l) dims.push_back(l->extent);
  const auto offset = [&](Expr first) {
    std::vector<Expr> index = {first};
    for (auto l = further; l != s.kept.end(); ++l) index.push_back(axis(l->axis));
    return linear_index(dims, index);
  };

  SeparatedWindow out;
  out.around = chosen->kept;
  out.row = {kernel.next_local++, dtype, element_count(dims)};
  out.above = s;
  out.above.kept.assign(further, s.kept.end());
  out.above.kept.insert(out.above.kept.begin(), place);
  out.above.reduced.erase(out.above.reduced.begin() + static_cast<int64_t>(chosen->reduced));
  out.above.body = along_row(s.body, kept, reduced, chosen->distance, axis(place.axis));
  out.above.epilogue = load(first_local + accumulator, dtype, {});
  out.above.target = first_local + out.row.id;
  out.above.offset = offset(axis(place.axis));
  out.beside = s;
  out.beside.kept.assign(further - 1, s.kept.end());
  out.beside.reduced = {reduced};
  out.beside.body =
      load(first_local + out.row.id, dtype, {offset(axis(kept.axis) + axis(reduced.axis) * Expr(chosen->distance))});
  return out;
}

}  // namespace metac
