#include "compiler/target/cpu/residue_parts.h"

#include <algorithm>
#include <optional>

#include "compiler/machine/cpu_costs.h"
#include "compiler/support/checked.h"
#include "compiler/tensor/contraction.h"

namespace metac {
namespace {

// Does one of them never hold where axes are as `at` says?
bool never_hold(const std::vector<Expr>& conditions, const std::vector<Expr>& at, const Bounds& bounds) {
  return std::any_of(conditions.begin(), conditions.end(),
                     [&](Expr c) { return bounds.interval(simplify(substitute_axes(c, at), bounds)).high == 0; });
}

// The iterations of reduced axis k, of `extent`, where all may hold: first and end.
std::pair<int64_t, int64_t> live_taps(int k, int64_t extent, const std::vector<Expr>& conditions, std::vector<Expr> at,
                                      const Bounds& bounds) {
  auto dead = [&](int64_t tap) {
    at[static_cast<size_t>(k)] = tap;
    return never_hold(conditions, at, bounds);
  };
  int64_t first = 0, end = extent;
  while (first < end && dead(first)) ++first;
  while (end > first && dead(end - 1)) --end;
  return {first, end};
}

}  // namespace

std::vector<ResiduePart> residue_parts(const Definition& d, int lanes_axis, const std::vector<Expr>& conditions,
                                       const std::vector<Symbol>& symbols) {
  constexpr int64_t most_parts = 16, most_taps = 64;
  std::vector<int> residues, taps;
  int64_t count = 1;
  for (int k = 0; k < static_cast<int>(d.domain.size()); ++k) {
    if (std::none_of(conditions.begin(), conditions.end(), [&](Expr c) { return uses_axis(c, k); })) continue;
    const int64_t* extent = d.domain[static_cast<size_t>(k)].if_int();
    if (!extent || k == lanes_axis || *extent > (k < d.kept() ? most_parts : most_taps)) return {};
    if (k < d.kept()) count = saturating_mul(count, *extent);
    (k < d.kept() ? residues : taps).push_back(k);
  }
  if (residues.empty() || count < 2 || count > most_parts) return {};
  const Bounds bounds(symbols, d.domain);
  std::vector<ResiduePart> parts;
  double work = 0;  // of all parts, in windows that are whole
  for (int64_t number = 0; number < count; ++number) {
    ResiduePart part{identity_indices(static_cast<int>(d.domain.size())), d.domain, false};
    int64_t rest = number;
    for (int k : residues) {
      part.at[static_cast<size_t>(k)] = rest % d.domain[static_cast<size_t>(k)].as_int();
      part.domain[static_cast<size_t>(k)] = 1;
      rest /= d.domain[static_cast<size_t>(k)].as_int();
    }
    part.no_taps = never_hold(conditions, part.at, bounds);
    double share = 1;
    for (int k : taps) {
      const int64_t extent = d.domain[static_cast<size_t>(k)].as_int();
      const auto [first, end] = live_taps(k, extent, conditions, part.at, bounds);
      share *= static_cast<double>(end - first) / static_cast<double>(extent);
      part.no_taps = part.no_taps || first == end;
      part.at[static_cast<size_t>(k)] = axis(k) + Expr(first);
      part.domain[static_cast<size_t>(k)] = std::max<int64_t>(end - first, 1);
    }
    work += part.no_taps ? 0 : share;
    parts.push_back(std::move(part));
  }
  if (work > cpu_costs.parts_worth * static_cast<double>(count)) parts.clear();
  return parts;
}

namespace {

// A run of positions along one axis where the same taps live.
struct Band {
  int64_t begin, end, first_tap, end_tap;
};

// A kept axis, the reduced axis that goes over its taps, and the conditions on both.
struct WindowAxis {
  int position = -1, tap = -1;
  std::vector<Expr> conditions;
  std::vector<Band> bands;
};

// One for each axis with a border; empty if a condition is of another kind.
std::vector<WindowAxis> window_axes(const Definition& d, const std::vector<Expr>& conditions) {
  std::vector<WindowAxis> axes;
  for (Expr condition : conditions) {
    const std::vector<int> used = axes_used(condition, 0, static_cast<int>(d.domain.size()));
    if (condition->has_load || used.size() != 2 || used[0] >= d.kept() || used[1] < d.kept()) return {};
    auto known = std::find_if(axes.begin(), axes.end(),
                              [&](const WindowAxis& a) { return a.position == used[0] || a.tap == used[1]; });
    if (known == axes.end()) known = axes.insert(axes.end(), WindowAxis{used[0], used[1], {}, {}});
    if (known->position != used[0] || known->tap != used[1]) return {};
    known->conditions.push_back(condition);
  }
  return axes;
}

// The taps that live at a position; nullopt: none, or not one behind the other.
std::optional<std::pair<int64_t, int64_t>> taps_at(const WindowAxis& a, int64_t position, int64_t taps, std::vector<Expr> at,
                                                   const Bounds& bounds) {
  at[static_cast<size_t>(a.position)] = position;
  std::vector<int64_t> live;
  for (int64_t tap = 0; tap < taps; ++tap) {
    at[static_cast<size_t>(a.tap)] = tap;
    if (!never_hold(a.conditions, at, bounds)) live.push_back(tap);
  }
  if (live.empty() || live.back() - live.front() + 1 != static_cast<int64_t>(live.size())) return std::nullopt;
  return std::pair{live.front(), live.back() + 1};
}

// What bands cost, of what the whole axis does: a tile of few points waits for the other operand.
double cost_of(const std::vector<Band>& bands, int64_t taps) {
  double cost = 0;
  for (const Band& b : bands)
    cost += static_cast<double>(std::max(b.end - b.begin, cpu_costs.points_of_a_tile) * (b.end_tap - b.first_tap));
  return cost / static_cast<double>(bands.back().end * taps);
}

}  // namespace

std::vector<ResiduePart> border_parts(const Definition& d, const std::vector<Expr>& conditions,
                                      const std::vector<Symbol>& symbols) {
  constexpr int64_t most_steps = 4096;
  constexpr size_t most_bands = 4, most_parts = 16;  // of an axis; of all
  const Bounds bounds(symbols, d.domain);
  const std::vector<Expr> whole = identity_indices(static_cast<int>(d.domain.size()));
  std::vector<WindowAxis> axes = window_axes(d, conditions);
  double cost = 1;
  size_t count = 1;
  for (WindowAxis& a : axes) {
    const int64_t *extent = d.domain[static_cast<size_t>(a.position)].if_int(),
                  *taps = d.domain[static_cast<size_t>(a.tap)].if_int();
    if (!extent || !taps || *extent > most_steps / *taps) return {};
    const std::pair all{int64_t{0}, *taps};
    if (taps_at(a, *extent / 8, *taps, whole, bounds) == all) return {};  // a small border
    for (int64_t position = 0; position < *extent; ++position) {
      const auto live = taps_at(a, position, *taps, whole, bounds);
      if (!live) return {};
      if (a.bands.empty() || std::pair{a.bands.back().first_tap, a.bands.back().end_tap} != *live)
        a.bands.push_back({position, position, live->first, live->second});
      a.bands.back().end = position + 1;
      if (a.bands.size() > most_bands) return {};
    }
    cost *= cost_of(a.bands, *taps);
    count *= a.bands.size();
  }
  if (count < 2 || count > most_parts || cost > cpu_costs.parts_worth) return {};
  std::vector<ResiduePart> parts{{whole, d.domain, false}};
  for (const WindowAxis& a : axes) {
    std::vector<ResiduePart> cut;
    for (const ResiduePart& part : parts)
      for (const Band& band : a.bands) {
        cut.push_back(part);
        cut.back().at[static_cast<size_t>(a.position)] = axis(a.position) + Expr(band.begin);
        cut.back().domain[static_cast<size_t>(a.position)] = band.end - band.begin;
        cut.back().at[static_cast<size_t>(a.tap)] = axis(a.tap) + Expr(band.first_tap);
        cut.back().domain[static_cast<size_t>(a.tap)] = band.end_tap - band.first_tap;
      }
    parts = std::move(cut);
  }
  return parts;
}

Definition part_of(const Definition& d, const ResiduePart& part, const std::vector<Symbol>& symbols) {
  Definition p = d;
  p.domain = part.domain;
  for (size_t k = static_cast<size_t>(d.kept()); bool(d.products) && k < d.domain.size() && !part.no_taps; ++k)
    p.products = floor_div(p.products * part.domain[k], d.domain[k]);
  p.body = substitute_axes(d.body, part.at);
  p.epilogue = substitute_axes(d.epilogue, part.at);
  for (Expr& e : p.out_index) e = substitute_axes(e, part.at);
  if (part.no_taps) {
    const Expr zero = constant_of(d.accumulator, 0);
    p.body = p.epilogue
                 ? rewrite(p.epilogue,
                           [&](Expr n) { return n->kind == ExprKind::load && n->id == reduced_value ? zero : Expr(); })
                 : zero;
    p.epilogue = Expr();
    p.domain.resize(static_cast<size_t>(d.kept()));
    p.reduced = 0;
    p.reduce.reset();
    p.products = Expr();
  }
  simplify(p, symbols);
  return p;
}

}  // namespace metac
