#include "compiler/region/split_residues.h"

#include <algorithm>

#include "compiler/tensor/axes.h"
#include "compiler/tensor/contraction.h"

namespace metac {

static bool is_division_of(Expr e, int k) {
  return e->kind == ExprKind::call && (e->fn == Fn::floor_div || e->fn == Fn::floor_mod) && e->args[0] == axis(k) &&
         bool(e->args[1].if_int());
}

// The constant by which axis k is divided in the loads of `d`, the smallest of several that divide each other (windows of
// images of a batch); 0: it is not. `alone`: nothing is added to it before.
static int64_t divisor_of(const Definition& d, int k, bool& alone) {
  std::vector<int64_t> divisors;
  bool all = true;
  alone = true;
  visit_loads(d, [&](Expr n) {
    for (Expr index : n->args)
      visit(index, [&](Expr e) {
        if (e->kind != ExprKind::call || (e->fn != Fn::floor_div && e->fn != Fn::floor_mod)) return;
        const int64_t* by = e->args[1].if_int();
        if (!by || !uses_axis(e->args[0], k)) return;
        if (is_division_of(e->args[0], k)) return;  // which is seen by itself
        Expr step = stride_of(e->args[0], k);
        all = all && bool(step) && step.is_int(1);
        alone = alone && e->args[0] == axis(k);
        divisors.push_back(*by);
      });
  });
  if (!all || divisors.empty()) return 0;
  const int64_t least = *std::min_element(divisors.begin(), divisors.end());
  const auto fits = [&](int64_t by) { return by == least || (alone && by % least == 0); };
  return std::all_of(divisors.begin(), divisors.end(), fits) ? least : 0;
}

static void split_axis(Definition& d, int k, int64_t s, const std::vector<Symbol>& symbols) {
  std::vector<Expr> renamed;
  for (int n = 0; n < static_cast<int>(d.domain.size()); ++n) renamed.push_back(axis(n <= k ? n : n + 1));
  renamed[static_cast<size_t>(k)] = axis(k) * Expr(s) + axis(k + 1);
  d.domain[static_cast<size_t>(k)] = floor_div(d.domain[static_cast<size_t>(k)], s);
  d.domain.insert(d.domain.begin() + k + 1, Expr(s));
  d.body = substitute_axes(d.body, renamed);
  d.epilogue = substitute_axes(d.epilogue, renamed);
  for (Expr& e : d.out_index) e = substitute_axes(e, renamed);
  simplify(d, symbols);
}

// The constant at which a kept axis is taken apart in the result's indices, the smallest of several that divide each other;
// 0: it is not.
static int64_t stored_divisor_of(const Definition& d, int k) {
  std::vector<int64_t> divisors;
  bool all = true;
  for (Expr index : d.out_index)
    visit(index, [&](Expr e) {
      if (e->kind != ExprKind::call || (e->fn != Fn::floor_div && e->fn != Fn::floor_mod) || !uses_axis(e, k)) return;
      if (e->args[0] != axis(k)) return;  // around another division, which is seen by itself, or with something added
      if (const int64_t* by = e->args[1].if_int())
        divisors.push_back(*by);
      else
        all = false;
    });
  if (!all || divisors.empty()) return 0;
  const int64_t least = *std::min_element(divisors.begin(), divisors.end());
  return std::all_of(divisors.begin(), divisors.end(), [&](int64_t by) { return by % least == 0; }) ? least : 0;
}

void split_stored_digits(Definition& d, int64_t least, const std::vector<Symbol>& symbols) {
  const auto sum = tiled_contraction_of(d);
  if (!sum) return;
  for (int k = d.kept(); k-- > 0;) {
    const int64_t s = stored_divisor_of(d, k);
    if (s < least || !floor_mod(d.domain[static_cast<size_t>(k)], s).is_int(0) ||
        uses_axis(sum->a.load, k) == uses_axis(sum->b.load, k))
      continue;
    split_axis(d, k, s, symbols);
  }
}

// Takes axis k apart once. False: it is not divided, or as many residues as that are too many, and nothing is changed.
static bool split_residue(Definition& d, int k, const std::vector<Symbol>& symbols,
                          const std::function<Var*(const Definition& d, int result_axis, Expr extent)>& widen) {
  constexpr int64_t most = 16;
  bool alone = false;
  const int64_t s = divisor_of(d, k, alone);
  Expr& extent = d.domain[static_cast<size_t>(k)];
  // Channels that are counted through all groups are as many in each as they like to be; residues are to stay few.
  const bool counted = s > 1 && alone && floor_mod(extent, s).is_int(0);
  if (s < 2 || (s > most && !counted)) return false;
  if (!floor_mod(extent, s).is_int(0)) {
    auto stored = std::find(d.out_index.begin(), d.out_index.end(), axis(k));
    if (stored == d.out_index.end()) return false;
    Expr wider = ceil_div(extent, s) * Expr(s);
    Var* out = widen(d, static_cast<int>(stored - d.out_index.begin()), wider);
    if (!out) return false;
    d.out = out;
    extent = wider;
  }
  split_axis(d, k, s, symbols);
  return true;
}

void split_residues(Definition& d, const std::vector<Symbol>& symbols,
                    const std::function<Var*(const Definition& d, int result_axis, Expr extent)>& widen) {
  constexpr int most_times = 4;  // for one axis
  if (!tiled_contraction_of(d)) return;
  for (int k = d.kept(); k-- > 0;)
    for (int times = 0; times < most_times && split_residue(d, k, symbols, widen);) ++times;
}

}  // namespace metac
