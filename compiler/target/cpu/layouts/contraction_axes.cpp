#include "compiler/target/cpu/layouts/contraction_axes.h"

#include <algorithm>

#include "compiler/ir/hints.h"
#include "compiler/loops/loop_transforms.h"
#include "compiler/machine/cpu_costs.h"
#include "compiler/support/checked.h"
#include "compiler/target/cpu/layouts/pack_operand.h"
#include "compiler/tensor/axes.h"

namespace metac {

static std::vector<int> identity_positions(size_t n) {
  std::vector<int> out;
  for (size_t k = 0; k < n; ++k) out.push_back(static_cast<int>(k));
  return out;
}

// Axes of extent 1 say nothing but hide what is: a depthwise convolution sums over a channel axis of 1.
void drop_unit_axes(Definition& d, const std::vector<Symbol>& symbols) {
  if (!d.reduce || d.scatter) return;
  auto matched = contraction_of(d);
  bool of_words = matched && matched->product != Fn::mul;  // they lie along the last axis
  std::vector<Expr> renamed, read;                         // in the result's indices and in what is read
  Shape domain;
  int reduced = 0;
  bool any = false;
  for (int k = 0; k < static_cast<int>(d.domain.size()); ++k) {
    bool stored = std::find(d.out_index.begin(), d.out_index.end(), axis(k)) != d.out_index.end();
    bool last_reduced = k == static_cast<int>(d.domain.size()) - 1 && (reduced == 0 || of_words) && k >= d.kept();
    const bool unit = d.domain[static_cast<size_t>(k)].is_int(1) && !last_reduced;
    any = any || unit;
    read.push_back(unit ? Expr(0) : axis(static_cast<int>(domain.size())));
    renamed.push_back(unit && !stored ? Expr(0) : axis(static_cast<int>(domain.size())));
    if (unit && !stored) continue;
    domain.push_back(d.domain[static_cast<size_t>(k)]);
    reduced += k >= d.kept();
  }
  if (!any) return;
  d.domain = domain;
  d.reduced = reduced;
  d.body = substitute_axes(d.body, read);
  d.epilogue = substitute_axes(d.epilogue, read);
  for (Expr& e : d.out_index) e = substitute_axes(e, renamed);
  simplify(d, symbols);
}

// Does the result's last axis step through the data's last index one by one? With a stride each point would be gathered.
static bool reads_rows_in_order(const Definition& d, Expr data) {
  Expr point = d.out_index.back();
  if (point->kind != ExprKind::axis || data->args.empty()) return true;
  Expr step = stride_of(data->args.back(), point->id);
  return bool(step) && step.is_int(1);
}

// Groups of fewer channels than a vector has lanes: the group and its channel become one axis c, so that a vector spans
// several groups. The other operand is then read at floor_div(c, channels), a shuffle of one vector.
bool merge_narrow_group(Definition& d, int lanes, const std::vector<Symbol>& symbols) {
  constexpr int64_t one_shuffle =
      4;  // within 128 bits; of wider groups a vector that holds two is slower than lanes along a row of points
  auto c = tiled_contraction_of(d);
  if (!c) return false;
  const bool words = c->product != Fn::mul;
  for (Expr e : d.out_index) {
    if (e->kind != ExprKind::call) continue;
    Linear form = linear_form(e);
    if (form.constant != 0 || form.terms.size() != 2) continue;
    auto [x, cx] = form.terms[0];
    auto [y, cy] = form.terms[1];
    if (cx == 1) std::swap(x, y), std::swap(cx, cy);
    if (cy != 1 || x->kind != ExprKind::axis || y->kind != ExprKind::axis || x->id >= d.kept() || y->id >= d.kept())
      continue;
    if (!d.domain[static_cast<size_t>(y->id)].is_int(cx) || cx >= lanes || lanes % cx != 0) continue;
    if (!words && cx > one_shuffle && 2 * cx >= lanes &&
        reads_rows_in_order(d, uses_axis(c->a.load, y->id) ? c->b.load : c->a.load))
      continue;
    // Both operands know the group, one of them the channel; otherwise it is a residue (split_residues).
    if (!uses_axis(c->a.load, x->id) || !uses_axis(c->b.load, x->id) ||
        uses_axis(c->a.load, y->id) == uses_axis(c->b.load, y->id))
      continue;
    // x becomes the merged axis, y disappears.
    std::vector<Expr> renamed;
    std::vector<int> position;
    Shape domain;
    for (int k = 0; k < static_cast<int>(d.domain.size()); ++k) {
      if (k == y->id) {
        renamed.push_back(Expr());
        continue;
      }
      renamed.push_back(axis(static_cast<int>(domain.size())));
      domain.push_back(k == x->id ? d.domain[static_cast<size_t>(k)] * Expr(cx) : d.domain[static_cast<size_t>(k)]);
    }
    Expr merged = renamed[static_cast<size_t>(x->id)];
    renamed[static_cast<size_t>(x->id)] = floor_div(merged, cx);
    renamed[static_cast<size_t>(y->id)] = floor_mod(merged, cx);
    d.domain = domain;
    d.body = substitute_axes(d.body, renamed);
    d.epilogue = substitute_axes(d.epilogue, renamed);
    for (Expr& index : d.out_index) index = substitute_axes(index, renamed);
    // The channels of a group are reduced innermost, printed out: each has its own shuffle. Words are there already.
    simplify(d, symbols);
    if (words) return true;
    std::vector<int> order = identity_positions(d.domain.size());
    if (d.reduced > 1) {
      int last_axis = static_cast<int>(d.domain.size()) - 1;
      for (int k = d.kept(); k <= last_axis; ++k) order[static_cast<size_t>(k)] = k == d.kept() ? last_axis : k - 1;
      permute_axes(d, order);
    }
    return true;
  }
  return false;
}

void drop_dead_taps(Definition& d, const std::vector<Symbol>& symbols) {
  constexpr int64_t most = 64;  // of a window
  auto c = tiled_contraction_of(d);
  if (!c || (c->a.conditions.empty() && c->b.conditions.empty()) || c->a.outside != 0) return;
  bool changed = false;
  for (int k = d.kept(); k < static_cast<int>(d.domain.size()); ++k) {
    const int64_t* extent = d.domain[static_cast<size_t>(k)].if_int();
    if (!extent || *extent < 2 || *extent > most) continue;
    std::vector<Expr> at = identity_indices(static_cast<int>(d.domain.size()));
    auto dead = [&](int64_t tap) {
      at[static_cast<size_t>(k)] = tap;
      Bounds bounds(symbols, d.domain);
      for (const Operand* operand : {&c->a, &c->b})
        for (Expr condition : operand->conditions)
          if (bounds.interval(simplify(substitute_axes(condition, at), bounds)).high == 0) return true;
      return false;
    };
    int64_t first = 0, end = *extent;
    while (first < end && dead(first)) ++first;
    while (end > first && dead(end - 1)) --end;
    if (first == end || end - first == *extent) continue;
    at[static_cast<size_t>(k)] = axis(k) + Expr(first);
    d.body = substitute_axes(d.body, at);
    d.domain[static_cast<size_t>(k)] = end - first;
    c = tiled_contraction_of(d);
    changed = true;
    if (!c) break;
  }
  if (changed) simplify(d, symbols);
}

void turn_windows(Definition& d, const std::vector<Symbol>& symbols) {
  if (!tiled_contraction_of(d)) return;
  std::vector<Expr> at = identity_indices(static_cast<int>(d.domain.size()));
  bool turned = false;
  for (int k = d.kept(); k < static_cast<int>(d.domain.size()); ++k) {
    if (!d.domain[static_cast<size_t>(k)].if_int()) continue;
    bool against = false;
    visit_loads(d, [&](Expr n) {
      for (Expr index : n->args) {
        bool with_point = false, back = false;
        for (auto& [term, factor] : linear_form(index).terms) {
          with_point = with_point || (term->kind == ExprKind::axis && term->id < d.kept() && factor == 1);
          back = back || (term == axis(k) && factor == -1);
        }
        against = against || (with_point && back);
      }
    });
    if (!against) continue;
    at[static_cast<size_t>(k)] = d.domain[static_cast<size_t>(k)] - Expr(1) - axis(k);
    turned = true;
  }
  if (!turned) return;
  d.body = substitute_axes(d.body, at);
  simplify(d, symbols);
}

// How many of `extent` neighbours in memory are summed before the next tap of the window: a cache line's, or what divides.
static int64_t run_of(int64_t extent) {
  constexpr int64_t line = cpu_costs.line_bytes / 4, least = 8, most = 24;
  if (extent <= line) return extent;
  if (extent % line == 0) return line;
  int64_t run = most;
  while (run >= least && extent % run != 0) --run;
  return run < least ? 0 : run;
}

// The same where every tap reads memory of its own: long runs come with the hardware's prefetching; some lines of all taps
// are a chunk of the sum that the cache keeps for many tiles.
static int64_t far_run_of(int64_t extent) {
  constexpr int64_t lines = 4 * cpu_costs.line_bytes / 4;
  return extent % lines == 0 ? lines : extent;
}

// Do windows (reduced axes that slide along a kept one) read what nearby points have just read? Not where they are dilated
// by more points than a tile or two have: every tap then reads memory of its own.
static bool windows_are_near(const Definition& d, Expr address) {
  constexpr int64_t most = 8;  // points between neighbouring taps
  bool windows = false;
  for (int w = d.kept(); w < static_cast<int>(d.domain.size()); ++w) {
    for (int p = 0; p < d.kept(); ++p) {
      Expr tap = stride_of(address, w), point = stride_of(address, p);
      if (!tap || !point || !tap.if_int() || !point.if_int() || point.as_int() <= 0 || tap.as_int() % point.as_int() != 0)
        continue;
      if (tap.as_int() == 0 || d.domain[static_cast<size_t>(w)].is_int(1)) continue;
      if (std::abs(tap.as_int() / point.as_int()) <= most) return true;
      windows = true;
    }
  }
  return !windows;
}

void split_reduced_axis(Definition& d, Contraction& c, Expr data_address, const std::vector<Symbol>& symbols) {
  if (d.reduced < 2) return;
  Bounds bounds(symbols, d.domain);
  Expr a = simplify(data_address, bounds);
  for (int k = d.kept(); k < static_cast<int>(d.domain.size()); ++k) {
    Expr step = stride_of(a, k);
    const int64_t* extent = d.domain[static_cast<size_t>(k)].if_int();
    if (!step || !step.is_int(1) || !extent) continue;
    if (std::any_of(c.a.borders.begin(), c.a.borders.end(), [&](Expr e) { return uses_axis(e, k); }))
      continue;  // its taps live in parts
    const int64_t run = windows_are_near(d, a) ? run_of(*extent) : far_run_of(*extent);
    if (run == 0) continue;
    // The runs go to the front of the reduced axes, what is in a run to their end.
    std::vector<Expr> renamed;
    Shape domain(d.domain.begin(), d.domain.begin() + d.kept());
    domain.push_back(*extent / run);
    for (int n = 0; n < static_cast<int>(d.domain.size()); ++n) {
      renamed.push_back(axis(n < d.kept() ? n : n < k ? n + 1 : n));
      if (n >= d.kept() && n != k) domain.push_back(d.domain[static_cast<size_t>(n)]);
    }
    renamed[static_cast<size_t>(k)] = axis(d.kept()) * Expr(run) + axis(static_cast<int>(domain.size()));
    domain.push_back(run);
    for (Expr* e : {&c.a.load, &c.b.load}) *e = substitute_axes(*e, renamed);
    ++d.reduced;
    d.domain = domain;
    for (std::vector<Expr>* conditions : {&c.a.conditions, &c.a.borders, &c.b.conditions})
      for (Expr& e : *conditions) e = substitute_axes(e, renamed);
    d.body = c.guarded_body();
    return;
  }
}

SumShape sum_shape(const Definition& d, const Contraction& c, int lanes_axis, Expr data_address,
                   const std::vector<Symbol>& symbols) {
  constexpr int64_t element_bytes = 4;
  auto known = [](Expr e) { return e.if_int() ? e.as_int() : int64_t{0}; };
  SumShape sum;
  sum.lanes = typical_extent(d.domain[static_cast<size_t>(lanes_axis)], symbols);
  Expr steps = 1;
  for (int k = d.kept(); k < static_cast<int>(d.domain.size()); ++k) steps = steps * d.domain[static_cast<size_t>(k)];
  sum.steps = known(steps);
  std::vector<int> in_b = axes_used(c.b.load, 0, d.kept());
  Expr a = simplify(data_address, Bounds(symbols, d.domain));
  std::vector<int64_t> runs, distances;  // innermost first
  Expr inner_step, inner_extent;
  for (int k = d.kept(); k-- > 0;) {
    if (k == lanes_axis || std::count(in_b.begin(), in_b.end(), k) || !uses_axis(a, k)) continue;
    const Expr extent = d.domain[static_cast<size_t>(k)], step = stride_of(a, k);
    if (bool(step) && bool(inner_step) && step == inner_step * inner_extent) {
      inner_extent = inner_extent * extent;
      runs.back() = typical_extent(inner_extent, symbols);
      continue;
    }
    runs.push_back(typical_extent(extent, symbols));
    distances.push_back(bool(step) && step.if_int() ? std::abs(step.as_int()) : 0);
    inner_step = step, inner_extent = extent;
  }
  sum.points = 1;
  if (runs.empty()) return sum;
  std::reverse(runs.begin(), runs.end());
  std::reverse(distances.begin(), distances.end());
  size_t tiled = choose_tiled_axis(runs);
  sum.points = runs[tiled];
  sum.point_bytes = distances[tiled] * element_bytes;
  return sum;
}

bool linear_in_the_tile(const Definition& d, const Contraction& c, int lanes_axis, Expr data_address,
                        const std::vector<Symbol>& symbols) {
  Expr address = simplify(data_address, Bounds(symbols, d.domain));
  std::vector<int> outer = axes_used(c.b.load, 0, d.kept());
  return !any_of(address, [&](Expr n) {
    if (n->kind != ExprKind::call || (n->fn != Fn::floor_div && n->fn != Fn::floor_mod)) return false;
    std::vector<int> divided = axes_used(n, 0, static_cast<int>(d.domain.size()));
    return std::count(divided.begin(), divided.end(), lanes_axis) > 0 ||
           !std::includes(outer.begin(), outer.end(), divided.begin(), divided.end());
  });
}

int64_t elements_behind(const Definition& d, const Contraction& c, Expr data_address, int points,
                        const std::vector<Symbol>& symbols) {
  constexpr int64_t most = 1 << 16;
  const Expr address = simplify(data_address, Bounds(symbols, d.domain));
  int64_t behind = 0;
  for (int k = 0; k < d.kept(); ++k) {
    if (d.domain[static_cast<size_t>(k)].if_int() || uses_axis(c.b.load, k)) continue;
    if (const Expr step = stride_of(address, k); bool(step) && step.if_int())
      behind = std::max(behind, saturating_mul(step.as_int(), points - 1));
  }
  return behind <= most ? behind : 0;
}

}  // namespace metac
