#include "compiler/loops/stage_lowering.h"

#include <algorithm>

#include "compiler/ir/walks.h"
#include "compiler/loops/loop_transforms.h"
#include "compiler/tensor/axes.h"
#include "compiler/tensor/split_digits.h"

namespace metac {

Layout StageLowering::layout_of(int var) const {
  auto found = context_.layouts->find(var);
  return found == context_.layouts->end() ? Layout() : found->second;
}

Expr StageLowering::addressed(Expr e, int accumulator_local) {
  return rewrite_loads(e, [&](Expr n, const std::vector<Expr>& indices) {
    if (n->id == reduced_value) return load(first_local + accumulator_local, n->dtype, {});
    if (auto found = internals_.find(n->id); found != internals_.end()) {
      const InternalVar& in = found->second;
      if (in.axes.empty()) return load(first_local + in.local, n->dtype, {});
      std::vector<Expr> own;
      for (int k : in.axes) own.push_back(indices[k]);
      return load(first_local + in.local, n->dtype, {internal_offset(in, own)});
    }
    Var* var = context_.var(n->id);
    int argument = kernel_.argument(var, layout_of(n->id), false);
    return load(argument, n->dtype, {storage_address(var->shape(), layout_of(n->id), indices)});
  });
}

Expr StageLowering::internal_offset(const InternalVar& in, const std::vector<Expr>& own) const {
  const Expr offset = linear_index(in.dims, own);
  return rows_together_.count ? offset * rows_together_.count + rows_together_.index : offset;
}

Bounds StageLowering::stage_bounds(const Stage& s) const {
  Bounds bounds(*context_.symbols);
  for (const Loop& l : kernel_.root.loops) bounds.set_axis(l.axis, l.extent);
  for (const Loop& l : s.kept) bounds.set_axis(l.axis, l.extent);
  for (const Loop& l : s.reduced) bounds.set_axis(l.axis, l.extent);
  return bounds;
}

void StageLowering::simplify_stage(Stage& s) {
  Bounds bounds = stage_bounds(s);
  for (Expr* e : s.expressions()) *e = simplify(*e, bounds);
}

std::vector<Expr> StageLowering::make_axes(const Definition& d, Stage& s) {
  std::vector<Expr> renamed;
  for (int k = 0; k < static_cast<int>(d.domain.size()); ++k) {
    if (k < group_.shared) {
      renamed.push_back(axis(kernel_.root.loops[k].axis));
      continue;
    }
    Loop loop{kernel_.next_axis++, d.domain[k], LoopKind::serial};
    (k < d.kept() ? s.kept : s.reduced).push_back(loop);
    renamed.push_back(axis(loop.axis));
  }
  return renamed;
}

void StageLowering::set_target(const Definition& d, Stage& s, const std::vector<Expr>& renamed) {
  std::vector<Expr> index;
  for (Expr e : d.out_index) index.push_back(substitute_axes(e, renamed));
  if (!group_.internal.count(d.out->id)) {
    s.target = kernel_.argument(d.out, layout_of(d.out->id), true);
    s.offset = storage_address(d.out->shape(), layout_of(d.out->id), index);
    return;
  }
  InternalVar in;
  in.local = kernel_.next_local++;
  std::vector<Expr> own;
  for (int k = 0; k < d.out->rank(); ++k) {
    bool shared = d.out_index[k]->kind == ExprKind::axis && d.out_index[k]->id < group_.shared;
    if (shared || d.out->shape()[k].is_int(1)) continue;
    in.axes.push_back(k);
    in.dims.push_back(d.out->shape()[k]);
    own.push_back(index[k]);
  }
  Local local{in.local, d.out->dtype(),
              in.axes.empty() ? Expr() : element_count(in.dims) * (rows_together_.count ? rows_together_.count : Expr(1))};
  place_local(local);
  s.target = first_local + in.local;
  if (!in.axes.empty()) s.offset = internal_offset(in, own);
  internals_[d.out->id] = in;
}

void StageLowering::drop_unit_loops(Stage& s) {
  for (std::vector<Loop>* loops : {&s.kept, &s.reduced})
    for (size_t k = loops->size(); k-- > 0;) {
      const Loop loop = (*loops)[k];
      if (!loop.extent.is_int(1)) continue;
      for (Expr* e : s.expressions())
        *e = rewrite(*e, [&](Expr n) { return n->kind == ExprKind::axis && n->id == loop.axis ? Expr(0) : Expr(); });
      loops->erase(loops->begin() + static_cast<int64_t>(k));
    }
}

bool StageLowering::split_digits(Stage& s) {
  bool any = false;
  for (size_t k = s.kept.size(); k-- > 0;) {
    std::vector<Expr> expressions;
    for (Expr* e : s.expressions()) expressions.push_back(*e);
    const Loop whole = s.kept[k];
    const std::vector<Expr> extents = digits_of(expressions, axis(whole.axis), whole.extent);
    if (extents.empty()) continue;
    Stage apart = s;
    std::vector<int> digits;
    Expr index = 0, place = 1;
    apart.kept.erase(apart.kept.begin() + static_cast<int64_t>(k));
    for (Expr extent : extents) {
      digits.push_back(kernel_.next_axis++);
      apart.kept.insert(apart.kept.begin() + static_cast<int64_t>(k), {digits.back(), extent, LoopKind::serial, {}});
      index = index + axis(digits.back()) * place;
      place = place * extent;
    }
    for (Expr* e : apart.expressions()) *e = rewrite(*e, [&](Expr n) { return n == axis(whole.axis) ? index : Expr(); });
    simplify_stage(apart);
    bool divided = false;
    for (Expr* e : apart.expressions()) divided |= divides_axes(*e, digits);
    if (!divided) s = std::move(apart), any = true;
  }
  return any;
}

void StageLowering::order_loops(Stage& s) {
  auto stride_order = [&](std::vector<Loop>& loops, Expr offset) {
    if (!offset) return;
    Bounds bounds = stage_bounds(s);
    auto stride = [&](const Loop& l) {
      Expr step = stride_of(offset, l.axis);
      if (!step) return int64_t{0};
      Interval range = bounds.interval(step);
      return (range.low > 0 ? range.low : magnitude(range.high)).clamped();
    };
    std::stable_sort(loops.begin(), loops.end(), [&](const Loop& a, const Loop& b) { return stride(a) > stride(b); });
  };
  stride_order(s.kept, s.offset);
  Expr first;
  visit(s.body, [&](Expr n) {
    if (n->kind == ExprKind::load && n->args.size() == 1 && !first)
      for (const Loop& l : s.reduced)
        if (uses_axis(n->args[0], l.axis)) first = n->args[0];
  });
  stride_order(s.reduced, first);
}

void StageLowering::collapse(Stage& s, std::vector<Loop>& loops) {
  for (size_t k = loops.size(); k-- > 1;) {
    Loop &outer = loops[k - 1], &inner = loops[k];
    bool all = true;
    for (Expr* e : s.expressions()) all = all && can_collapse(*e, outer, inner);
    for (const Loop& l : s.kept) all = all && !uses_axis(l.extent, outer.axis) && !uses_axis(l.extent, inner.axis);
    if (!all) continue;
    Loop merged{kernel_.next_axis++, outer.extent * inner.extent, LoopKind::serial};
    for (Expr* e : s.expressions()) *e = collapse_axes(*e, outer, inner, merged);
    kernel_.schedule.push_back("collapse two loops over one run of memory");
    loops[k - 1] = merged;
    loops.erase(loops.begin() + static_cast<int64_t>(k));
  }
}

}  // namespace metac
