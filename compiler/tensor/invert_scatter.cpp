#include "compiler/tensor/invert_scatter.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace metac {
namespace {

int64_t extent_or_most(Expr extent) { return extent.if_int() ? extent.as_int() : std::numeric_limits<int64_t>::max(); }

// x with a*x = 1 modulo m, for coprime a and m.
int64_t inverse_modulo(int64_t a, int64_t m) {
  for (int64_t x = 0; x < m; ++x)
    if ((a * x) % m == 1 % m) return x;
  return 0;
}

// One axis of the result in terms of the scatter's axes.
struct Solve {
  int eliminated = -1;     // axis of the scatter; -1: the index is a constant
  int64_t step = 1;        // its coefficient
  int stepped = -1;        // the axis k that is cut into k0 + (s/g)*t; -1: none
  int64_t stepped_by = 0;  // its coefficient d
  Expr rest;               // index - step*axis(eliminated) - stepped_by*axis(stepped)
  std::vector<std::pair<int, int64_t>>
      digits;  // axes and their factors where the index counts them out, the last one first; then nothing else is set
};

class Inversion {
 public:
  Inversion(Definition d, const std::vector<Symbol>& symbols) : d_(std::move(d)), symbols_(symbols) {}

  bool run(Definition& out) {
    for (size_t k = 0; k < d_.out_index.size(); ++k) {
      Solve s;
      if (!count_out(k, s) && !solve(d_.out_index[k], s)) return false;
      solves_.push_back(s);
    }
    if (!eliminated_stand_alone()) return false;
    number_axes();
    if (too_many_points()) return false;
    substitute();
    out = result();
    return true;
  }

 private:
  // An index that has every value once, as group*channels + channel has: its axes are the digits of it.
  bool count_out(size_t k, Solve& s) const {
    const Linear form = linear_form(d_.out_index[k]);
    if (form.constant != 0) return false;
    std::vector<std::pair<int, int64_t>> digits;
    for (auto& [atom, factor] : form.terms) {
      if (atom->kind != ExprKind::axis) return false;
      if (d_.domain[static_cast<size_t>(atom->id)].is_int(1)) continue;  // says nothing
      digits.push_back({atom->id, factor});
      for (size_t other = 0; other < d_.out_index.size(); ++other)
        if (other != k && uses_axis(d_.out_index[other], atom->id)) return false;
    }
    if (digits.size() < 2) return false;
    std::sort(digits.begin(), digits.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    Expr next = 1;
    for (auto [id, factor] : digits) {
      if (!next.is_int(factor)) return false;
      next = next * d_.domain[static_cast<size_t>(id)];
    }
    if (next != d_.out->shape()[k]) return false;
    s.digits = std::move(digits);
    return true;
  }

  bool solve(Expr index, Solve& s) {
    if (index->has_load) return false;
    Linear form = linear_form(index);
    int64_t longest = -1;
    for (auto& [atom, factor] : form.terms) {
      if (atom->kind != ExprKind::axis) continue;
      int64_t extent = extent_or_most(d_.domain[static_cast<size_t>(atom->id)]);
      if (extent <= longest) continue;
      longest = extent;
      s.eliminated = atom->id;
      s.step = factor;
    }
    Linear rest;
    rest.constant = form.constant;
    for (auto& [atom, factor] : form.terms) {
      bool axes = any_of(atom, [](Expr n) { return n->kind == ExprKind::axis; });
      if (atom->kind == ExprKind::axis && atom->id == s.eliminated) continue;
      if (s.eliminated >= 0 && std::abs(s.step) > 1 && axes) {
        if (s.stepped >= 0 || atom->kind != ExprKind::axis || factor <= 0) return false;
        s.stepped = atom->id;
        s.stepped_by = factor;
        continue;
      }
      rest.terms.push_back({atom, factor});
    }
    s.rest = from_linear(rest);
    if (s.eliminated < 0) return !any_of(s.rest, [](Expr n) { return n->kind == ExprKind::axis; });
    return s.step == -1 || s.step > 0;
  }

  // An eliminated or cut axis occurs in no other index.
  bool eliminated_stand_alone() const {
    for (size_t k = 0; k < solves_.size(); ++k)
      for (int own : {solves_[k].eliminated, solves_[k].stepped}) {
        if (own < 0) continue;
        auto is_own = [&](Expr n) { return n->kind == ExprKind::axis && n->id == own; };
        if (any_of(solves_[k].rest, is_own)) return false;
        for (size_t other = 0; other < solves_.size(); ++other)
          if (other != k && any_of(d_.out_index[other], is_own)) return false;
      }
    return true;
  }

  // Kept axes are the result's; then what is left of the scatter's axes.
  void number_axes() {
    domain_ = d_.out->shape();
    renamed_.assign(d_.domain.size(), Expr());
    for (int k = 0; k < static_cast<int>(d_.domain.size()); ++k) {
      bool gone = false;
      Expr extent = d_.domain[static_cast<size_t>(k)];
      for (const Solve& s : solves_) {
        gone |= s.eliminated == k ||
                std::any_of(s.digits.begin(), s.digits.end(), [k](const auto& digit) { return digit.first == k; });
        if (s.stepped == k) extent = ceil_div(extent, s.step / std::gcd(s.step, s.stepped_by));
      }
      if (gone) continue;
      renamed_[static_cast<size_t>(k)] = axis(static_cast<int>(domain_.size()));
      domain_.push_back(extent);
    }
  }

  bool too_many_points() const {
    Expr before = element_count(d_.domain), after = element_count(domain_);
    return before.if_int() && after.if_int() && after.as_int() / 4 > before.as_int();
  }

  void substitute() {
    for (size_t k = 0; k < solves_.size(); ++k) {
      const Solve& s = solves_[k];
      Expr o = axis(static_cast<int>(k));
      for (auto [id, factor] : s.digits) {
        const Expr above = floor_div(o, factor);
        renamed_[static_cast<size_t>(id)] =
            id == s.digits.back().first ? above : floor_mod(above, d_.domain[static_cast<size_t>(id)]);
      }
      if (!s.digits.empty()) continue;
      if (s.eliminated < 0) {
        if (!d_.out->shape()[k].is_int(1) || !s.rest.is_int(0)) conditions_.push_back(equal(o, s.rest));
        continue;
      }
      Expr u = o - substitute_axes_where_known(s.rest), i;
      if (std::abs(s.step) == 1) {
        i = s.step == 1 ? u : Expr(0) - u;
      } else if (s.stepped < 0) {
        conditions_.push_back(equal(floor_mod(u, s.step), 0));
        i = floor_div(u, s.step);
      } else {
        int64_t g = std::gcd(s.step, s.stepped_by), period = s.step / g, d = s.stepped_by / g;
        if (g > 1) conditions_.push_back(equal(floor_mod(u, g), 0));
        Expr t = renamed_[static_cast<size_t>(s.stepped)];
        Expr first = d == 1 ? floor_mod(floor_div(u, g), period)
                            : floor_mod(Expr(inverse_modulo(d % period, period)) * floor_div(u, g), period);
        i = (d == 1 ? floor_div(u, s.step) : floor_div(u - Expr(s.stepped_by) * first, s.step)) - Expr(d) * t;
        Expr cut = first + Expr(period) * t, extent = d_.domain[static_cast<size_t>(s.stepped)];
        renamed_[static_cast<size_t>(s.stepped)] = cut;
        if (!floor_mod(extent, period).is_int(0)) conditions_.push_back(cut < extent);
      }
      renamed_[static_cast<size_t>(s.eliminated)] = i;
      conditions_.push_back(Expr(0) <= i);
      conditions_.push_back(i < d_.domain[static_cast<size_t>(s.eliminated)]);
    }
  }

  // The rest of an index has no eliminated axis in it, so its axes are already renamed.
  Expr substitute_axes_where_known(Expr e) const {
    return rewrite(
        e, [&](Expr n) -> Expr { return n->kind == ExprKind::axis ? renamed_[static_cast<size_t>(n->id)] : Expr(); });
  }

  // What the scatter demands, less what every element of the result fulfils: that its index is inside the result.
  bool holds_for_every_element(Expr condition) const {
    for (size_t k = 0; k < d_.out_index.size(); ++k)
      if (condition == (Expr(0) <= d_.out_index[k]) || condition == (d_.out_index[k] < d_.out->shape()[k])) return true;
    return false;
  }

  Definition result() const {
    Definition out = d_;
    out.scatter = false;
    out.domain = domain_;
    out.reduced = static_cast<int>(domain_.size()) - d_.out->rank();
    out.out_index = identity_indices(d_.out->rank());
    out.conditions.clear();
    Expr all = bool_constant(true);
    for (Expr c : conditions_) all = logical_and(all, c);
    for (Expr c : d_.conditions)
      if (!holds_for_every_element(c)) all = logical_and(all, substitute_axes(c, renamed_));
    out.body = select(all, substitute_axes(d_.body, renamed_), identity_of(*d_.reduce, d_.accumulator));
    if (out.reduced == 0) {
      out.body = rewrite(d_.epilogue, [&](Expr n) -> Expr {
        return n->kind == ExprKind::load && n->id == reduced_value ? out.body : Expr();
      });
      out.reduce.reset();
      out.epilogue = Expr();
    }
    simplify(out, symbols_);
    return out;
  }

  const Definition d_;
  const std::vector<Symbol>& symbols_;
  std::vector<Solve> solves_;
  Shape domain_;
  std::vector<Expr> renamed_, conditions_;
};

// The factor c where every index has the axis as floor(axis/c) alone; 0: it is there in another way, or not at all.
int64_t step_of(const std::vector<Expr>& indices, int axis_id) {
  int64_t step = 0;
  for (Expr index : indices) {
    if (!uses_axis(index, axis_id)) continue;
    if (step) return 0;
    any_of(index, [&](Expr n) {
      if (n->kind == ExprKind::call && n->fn == Fn::floor_div && n->args[0] == axis(axis_id) && n->args[1].if_int())
        step = n->args[1].as_int();
      return step != 0;
    });
    // Nothing but whole steps: with them replaced, the axis is gone.
    if (step < 2 ||
        uses_axis(rewrite(index, [&](Expr n) { return n == floor_div(axis(axis_id), step) ? Expr(0) : Expr(); }), axis_id))
      return 0;
  }
  return step;
}

// An axis that counts in whole steps (i/2 of an image that was enlarged) becomes the step and, as a new last axis, the place
// in it.
Definition with_steps_cut(Definition d, const std::vector<Symbol>& symbols) {
  const int rank = static_cast<int>(d.domain.size());
  for (int k = 0; k < rank; ++k) {
    const int64_t step = step_of(d.out_index, k);
    if (step == 0) continue;
    const Expr place = axis(static_cast<int>(d.domain.size())), extent = d.domain[static_cast<size_t>(k)],
               whole = axis(k) * Expr(step) + place;
    std::vector<Expr> values = identity_indices(static_cast<int>(d.domain.size()));
    values[static_cast<size_t>(k)] = whole;
    for (Expr& index : d.out_index)
      index = rewrite(index, [&](Expr n) { return n == floor_div(axis(k), step) ? axis(k) : Expr(); });
    for (Expr& c : d.conditions) c = substitute_axes(c, values);
    d.body = substitute_axes(d.body, values);
    d.domain[static_cast<size_t>(k)] = ceil_div(extent, step);
    d.domain.push_back(step);
    if (!floor_mod(extent, step).is_int(0)) d.conditions.push_back(whole < extent);
  }
  if (static_cast<int>(d.domain.size()) > rank) simplify(d, symbols);
  return d;
}

}  // namespace

bool invert_scatter(Definition& d, const std::vector<Symbol>& symbols) {
  if (!d.scatter) return false;
  for (Expr c : d.conditions)
    if (c->has_load) return false;
  Definition gathered;
  if (!Inversion(with_steps_cut(d, symbols), symbols).run(gathered)) return false;
  d = std::move(gathered);
  return true;
}

}  // namespace metac
