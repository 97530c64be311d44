#include "compiler/passes/residue_parts.h"

#include <algorithm>

#include "compiler/kernel/contraction.h"

namespace metac {
namespace {

// Does one of them never hold where axes are as `at` says?
bool never_hold(const std::vector<Expr>& conditions, const std::vector<Expr>& at, const Bounds& bounds) {
  return std::any_of(conditions.begin(), conditions.end(), [&](Expr c) { return bounds.interval(simplify(substitute_axes(c, at), bounds)).high == 0; });
}

// The iterations of reduced axis k, of `extent`, where all may hold: first and end.
std::pair<int64_t, int64_t> live_taps(int k, int64_t extent, const std::vector<Expr>& conditions, std::vector<Expr> at, const Bounds& bounds) {
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

std::vector<ResiduePart> residue_parts(const Definition& d, int lanes_axis, const std::vector<Expr>& conditions, const std::vector<Symbol>& symbols) {
  constexpr int64_t most_parts = 16, most_taps = 64;
  std::vector<int> residues, taps;
  int64_t count = 1;
  for (int k = 0; k < static_cast<int>(d.domain.size()); ++k) {
    if (std::none_of(conditions.begin(), conditions.end(), [&](Expr c) { return uses_axis(c, k); })) continue;
    const int64_t* extent = d.domain[static_cast<size_t>(k)].if_int();
    if (!extent || k == lanes_axis || *extent > (k < d.kept() ? most_parts : most_taps)) return {};
    if (k < d.kept()) count *= *extent;
    (k < d.kept() ? residues : taps).push_back(k);
  }
  if (residues.empty() || count < 2 || count > most_parts) return {};
  const Bounds bounds(symbols, d.domain);
  std::vector<ResiduePart> parts;
  double work = 0;   // of all parts, in windows that are whole
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
  constexpr double worth = 0.75;
  if (work > worth * static_cast<double>(count)) parts.clear();
  return parts;
}

Definition part_of(const Definition& d, const ResiduePart& part, const std::vector<Symbol>& symbols) {
  Definition p = d;
  p.domain = part.domain;
  p.body = substitute_axes(d.body, part.at);
  p.epilogue = substitute_axes(d.epilogue, part.at);
  for (Expr& e : p.out_index) e = substitute_axes(e, part.at);
  if (part.no_taps) {
    const Expr zero = constant_of(d.accumulator, 0);
    p.body = p.epilogue ? rewrite(p.epilogue, [&](Expr n) { return n->kind == ExprKind::load && n->id == reduced_value ? zero : Expr(); }) : zero;
    p.epilogue = Expr();
    p.domain.resize(static_cast<size_t>(d.kept()));
    p.reduced = 0;
    p.reduce.reset();
  }
  simplify(p, symbols);
  return p;
}

}  // namespace metac
