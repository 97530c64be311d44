#include "compiler/ir/bounds.h"

#include <algorithm>

#include "compiler/support/checked.h"

namespace metac {

Bounds::Bounds(const std::vector<Symbol>& symbols, const Shape& domain) {
  for (const Symbol& s : symbols) symbols_.push_back({s.min, s.max});
  for (size_t k = 0; k < domain.size(); ++k) extents_[static_cast<int>(k)] = domain[k];
}

void Bounds::set_axis(int id, Expr extent) {
  extents_[id] = extent;
  memory_ = {};
}

void Bounds::set_range(int id, Interval range) {
  ranges_[id] = range;
  memory_ = {};
}

Interval Bounds::interval(Expr e) const {
  if (!is_integer(e->dtype) && !is_bool(e->dtype)) return {-End::infinity(), End::infinity()};
  switch (e->kind) {
    case ExprKind::int_constant: {
      const End value = e->dtype == DType::u64 ? End::of(static_cast<uint64_t>(e->int_value)) : End(e->int_value);
      return {value, value};
    }
    case ExprKind::axis: {
      auto found = extents_.find(e->id);
      if (found == extents_.end()) {
        auto range = ranges_.find(e->id);
        return range == ranges_.end() ? range_of(DType::i64) : range->second;
      }
      return {0, std::max(interval(found->second).high - 1, End(0))};
    }
    case ExprKind::symbol:
      return e->id < static_cast<int>(symbols_.size()) ? symbols_[static_cast<size_t>(e->id)] : range_of(DType::i64);
    case ExprKind::load:
      return range_of(e->dtype);
    default:
      break;
  }
  if (!memory_.intervals) memory_.intervals.emplace();
  if (const Interval* known = memory_.intervals->find(e.node())) return *known;
  const Interval whole = range_of(e->dtype);
  Interval found = whole;
  if (e->kind == ExprKind::cast) {
    if (!is_bool(e->dtype)) found = interval(e->args[0]);
    if (!whole.contains(found)) found = whole;  // wraps
  } else {
    found = interval_of_call(e);
    const bool is_index = e->dtype == DType::i64 && !e->has_load;
    if (!is_index && !whole.contains(found)) found = whole;
  }
  memory_.intervals->insert(e.node(), found);
  return found;
}

// As numbers, before anything wraps.
Interval Bounds::interval_of_call(Expr e) const {
  const Interval whole = range_of(e->dtype);
  if (is_bool(e->dtype) && e->fn != Fn::select) {
    if (e->args[0]->dtype != DType::i64) return whole;
    const Interval a = interval(e->args[0]), b = interval(e->args.back());
    const bool apart = a.high < b.low || b.high < a.low;
    switch (e->fn) {
      case Fn::lt:
        return {a.high < b.low, a.low < b.high};
      case Fn::le:
        return {a.high <= b.low, a.low <= b.high};
      case Fn::eq:
        return {0, !apart};
      case Fn::ne:
        return {apart, 1};
      default:
        return whole;
    }
  }
  auto argument = [&](size_t k) { return interval(e->args[k]); };
  switch (e->fn) {
    case Fn::neg:
      return -argument(0);
    case Fn::abs:
      return abs(argument(0));
    case Fn::sign:
      return is_signed(e->dtype) ? Interval{-1, 1} : Interval{0, 1};
    case Fn::add:
      return argument(0) + argument(1);
    case Fn::sub:
      return argument(0) - argument(1);
    case Fn::mul:
      return argument(0) * argument(1);
    case Fn::div:
      return trunc_div(argument(0), argument(1));
    case Fn::floor_div:
      return floor_div(argument(0), argument(1));
    case Fn::floor_mod:
      return floor_mod(argument(0), argument(1));
    case Fn::trunc_mod:
      return trunc_mod(argument(0), argument(1));
    case Fn::min:
      return min(argument(0), argument(1));
    case Fn::max:
      return max(argument(0), argument(1));
    case Fn::select:
      return either(argument(1), argument(2));
    default:
      return whole;
  }
}

// What an axis is multiplied by in a sum, and the part of the sum that this makes: factor * axis.
struct Multiple {
  Expr of, factor;
};

// By axis, in the order of the terms.
static std::vector<Multiple> multiples(const Linear& form) {
  std::vector<Multiple> out;
  for (auto& [monomial, coefficient] : form.terms) {
    const std::vector<Expr> factors = factors_of(monomial);
    for (size_t k = 0; k < factors.size(); ++k) {
      if (factors[k]->kind != ExprKind::axis) continue;
      Expr factor = coefficient;
      for (size_t j = 0; j < factors.size(); ++j)
        if (j != k) factor = factor * factors[j];
      auto found = std::find_if(out.begin(), out.end(), [&](const Multiple& m) { return m.of == factors[k]; });
      if (found == out.end())
        out.push_back({factors[k], factor});
      else
        found->factor = found->factor + factor;
      break;
    }
  }
  return out;
}

// Extents that are open, of the axes that `e` uses, and their products: e has a value, so that each is 1 at least.
std::vector<Expr> Bounds::positive_products(Expr e) const {
  std::vector<Expr> open, products;
  for (auto& [id, extent] : extents_)
    if (!extent.if_int() && uses_axis(e, id)) open.push_back(extent);
  for (size_t first = 0; first < open.size(); ++first) {
    Expr product = 1;
    for (size_t k = first; k < open.size(); ++k) products.push_back(product = product * open[k]);
  }
  return products;
}

// By intervals, or symbolically: one axis after the other goes to the end of its range that makes e least. Digits that meet
// may bring an axis back, hence the number of steps.
bool Bounds::is_at_least(Expr e, int64_t least, Proof& proof) const {
  if (interval(e).low >= least) return true;
  if (least <= 1 && std::count(proof.positive.begin(), proof.positive.end(), e) > 0) return true;
  if (--proof.steps < 0) return false;
  const Linear form = linear_form(e);
  // With another term in the place of one. A constant that passes 64 bits proves nothing.
  auto with_another = [&](Expr term, int64_t coefficient, Expr by, int64_t factor) {
    Expr rest = e - term * Expr(coefficient);
    if (!by.if_int()) return is_at_least(rest + by * Expr(factor), least, proof);
    const auto constant = checked_mul(by.as_int(), factor);
    if (!constant || (rest.if_int() && !checked_add(rest.as_int(), *constant))) return false;
    return is_at_least(rest + Expr(*constant), least, proof);
  };
  for (const Multiple& m : multiples(form)) {
    auto extent = extents_.find(m.of->id);
    if (extent == extents_.end()) continue;
    if (const int64_t* factor = m.factor.if_int())
      return with_another(m.of, *factor, *factor > 0 ? Expr(0) : extent->second - Expr(1), *factor);
    const bool rises = is_at_least(m.factor, 0, proof);
    if (!rises && !is_at_least(Expr(0) - m.factor, 0, proof)) continue;
    const Expr rest = e - m.factor * m.of;
    return is_at_least(rises ? rest : rest + m.factor * (extent->second - Expr(1)), least, proof);
  }
  const auto divisor = [](Expr atom) {
    const bool quotient = atom->kind == ExprKind::call && atom->fn == Fn::floor_div && atom->args[1].if_int();
    return quotient ? *atom->args[1].if_int() : 0;
  };
  // A quotient beside a part of its divisor: with y = floor(x/d), m*floor((x + q*d)/(m*d)) lies in (y + q - m, y + q].
  for (auto& [atom, coefficient] : form.terms) {
    for (auto& [other, unused] : form.terms) {
      const int64_t c = divisor(atom), d = divisor(other), m = d > 0 ? c / d : 0;
      if (m <= 1 || c % d != 0 || coefficient % m != 0) continue;
      const Expr apart = atom->args[0] - other->args[0];
      if (!apart.if_int() || apart.as_int() % d != 0) continue;
      const Expr most = other + Expr(apart.as_int() / d);
      return with_another(atom, coefficient, coefficient > 0 ? most - Expr(m - 1) : most, coefficient / m);
    }
  }
  // c*floor(x/c) lies in (x - c, x].
  for (auto& [atom, coefficient] : form.terms) {
    const int64_t c = divisor(atom);
    if (c <= 1 || coefficient % c != 0) continue;
    Expr bound = coefficient > 0 ? atom->args[0] - Expr(c - 1) : atom->args[0];
    return with_another(atom, coefficient, bound, coefficient / c);
  }
  return false;
}

// The difference of two constants may pass 64 bits, and data wraps: there the ranges decide, and nothing else would help.
bool Bounds::proves_difference(Expr a, Expr b, int64_t least) const {
  if (a->has_load || b->has_load || a.if_int() || b.if_int()) {
    if (interval(a).low - interval(b).high >= least) return true;
    if (a->has_load || b->has_load || (a.if_int() && b.if_int())) return false;
  }
  const Expr difference = a - b;
  Proof proof{positive_products(difference)};
  return is_at_least(difference, least, proof);
}

bool Bounds::proves_less(Expr a, Expr b) const { return proves_difference(b, a, 1); }
bool Bounds::proves_at_least(Expr a, Expr b) const { return proves_difference(a, b, 0); }

bool Bounds::proves(Expr c) const {
  if (const int64_t* value = c.if_int()) return *value != 0;
  if (c->kind != ExprKind::call) return false;
  if (c->fn != Fn::logical_and && c->fn != Fn::logical_or) return decide(c);
  if (!memory_.proofs) memory_.proofs.emplace();
  if (const bool* known = memory_.proofs->find(c.node())) return *known;
  const bool first = proves(c->args[0]);
  const bool proved = c->fn == Fn::logical_and ? first && proves(c->args[1]) : first || proves(c->args[1]);
  memory_.proofs->insert(c.node(), proved);
  return proved;
}

bool Bounds::decide(Expr c) const {
  if (c->args[0]->dtype != DType::i64) {
    if (c->fn != Fn::logical_not || c->args[0]->kind != ExprKind::call || c->args[0]->args[0]->dtype != DType::i64)
      return false;
    const Expr inner = c->args[0];
    if (inner->fn == Fn::lt) return proves_at_least(inner->args[0], inner->args[1]);
    return inner->fn == Fn::le && proves_less(inner->args[1], inner->args[0]);
  }
  if (c->args.size() != 2) return false;
  const Expr a = c->args[0], b = c->args[1];
  switch (c->fn) {
    case Fn::lt:
      return proves_less(a, b);
    case Fn::le:
      return proves_at_least(b, a);
    case Fn::ne:
      return proves_less(a, b) || proves_less(b, a);
    default:
      return false;
  }
}

// floor((g*x + r) / (g*d)) = floor(x / d) and (g*x + r) mod (g*d) = g*(x mod d) + r where r is known to be in [0, g).
static Expr split_low_part(Expr e, const Bounds& bounds, Simplified& known) {
  const int64_t* divisor = e->args[1].if_int();
  if (!divisor || *divisor <= 1) return e;
  Linear form = linear_form(e->args[0]);
  for (auto& [unused, g] : form.terms) {
    if (g <= 1 || *divisor % g != 0) continue;
    Linear high, low;
    for (auto& [atom, c] : form.terms) (c % g == 0 ? high : low).terms.push_back({atom, c % g == 0 ? c / g : c});
    high.constant = floor_div(form.constant, g);
    low.constant = floor_mod(form.constant, g);
    Interval r = bounds.interval(from_linear(low));
    if (r.low < 0 || r.high >= g) continue;
    const Expr whole = from_linear(high), count = *divisor / g;
    if (e->fn == Fn::floor_div) return simplify({floor_div(whole, count)}, bounds, known)[0];
    return simplify({floor_mod(whole, count)}, bounds, known)[0] * Expr(g) + from_linear(low);
  }
  return e;
}

// The same where divisors are open dims: (g*x + r) / (g*d) and (g*x + r) mod (g*d), g being the divisor itself or what an
// axis of the dividend is multiplied by.
static Expr split_open_part(Expr e, const Bounds& bounds, Simplified& known) {
  const Expr divisor = e->args[1];
  std::vector<Expr> candidates = {divisor};
  for (const Multiple& m : multiples(linear_form(e->args[0])))
    if (!m.factor.if_int() && m.factor != divisor) candidates.push_back(m.factor);
  for (Expr g : candidates) {
    const Expr count = quotient_of(divisor, g), whole = quotient_of(e->args[0], g);
    if (count.is_int(0) || whole.is_int(0) || count * g != divisor) continue;
    const Expr low = e->args[0] - whole * g;
    if (!bounds.proves_at_least(low, 0) || !bounds.proves_less(low, g)) continue;
    if (e->fn == Fn::floor_div) return simplify({floor_div(whole, count)}, bounds, known)[0];
    return simplify({floor_mod(whole, count)}, bounds, known)[0] * g + low;
  }
  return e;
}

static Expr split(Expr e, const Bounds& bounds, Simplified& known) {
  return e->args[1].if_int() ? split_low_part(e, bounds, known) : split_open_part(e, bounds, known);
}

static Expr decide(Expr e, const Bounds& bounds, Simplified& known) {
  if (e->kind != ExprKind::call) return e;
  auto index = [&](size_t k) { return e->args[k]->dtype == DType::i64; };
  switch (e->fn) {
    case Fn::floor_div:
      if (index(0) && bounds.proves_at_least(e->args[0], 0) && bounds.proves_less(e->args[0], e->args[1])) return 0;
      return index(0) && !e->has_load ? split(e, bounds, known) : e;
    case Fn::floor_mod:
      if (index(0) && bounds.proves_at_least(e->args[0], 0) && bounds.proves_less(e->args[0], e->args[1])) return e->args[0];
      return index(0) && !e->has_load ? split(e, bounds, known) : e;
    case Fn::min:
      if (!index(0)) return e;
      if (bounds.proves(e->args[0] <= e->args[1])) return e->args[0];
      return bounds.proves(e->args[1] <= e->args[0]) ? e->args[1] : e;
    case Fn::max:
      if (!index(0)) return e;
      if (bounds.proves(e->args[0] <= e->args[1])) return e->args[1];
      return bounds.proves(e->args[1] <= e->args[0]) ? e->args[0] : e;
    case Fn::lt:
      if (!index(0)) return e;
      if (bounds.proves(e)) return bool_constant(true);
      return bounds.proves(e->args[1] <= e->args[0]) ? bool_constant(false) : e;
    case Fn::le:
      if (!index(0)) return e;
      if (bounds.proves(e)) return bool_constant(true);
      return bounds.proves(e->args[1] < e->args[0]) ? bool_constant(false) : e;
    case Fn::eq:
    case Fn::ne: {
      if (!index(0) || !bounds.proves(not_equal(e->args[0], e->args[1]))) return e;
      return bool_constant(e->fn == Fn::ne);
    }
    default:
      return e;
  }
}

std::vector<Expr> simplify(const std::vector<Expr>& es, const Bounds& bounds) {
  Simplified known;
  return simplify(es, bounds, known);
}

std::vector<Expr> simplify(const std::vector<Expr>& es, const Bounds& bounds, Simplified& known) {
  auto& done = known.done;
  // What is rebuilt step by step, a chain of selects for one, is looked at again from each step.
  auto decide_once = [&](Expr e) {
    auto found = known.decided.find(e.node());
    return found != known.decided.end() ? found->second
                                        : known.decided.emplace(e.node(), decide(e, bounds, known)).first->second;
  };
  // Every node below is decided to be what it is: no walk need go in again.
  auto settle = [&](Expr e) {
    auto found = known.decided.find(e.node());
    if (found == known.decided.end() || found->second != e) return;
    if (std::all_of(e->args.begin(), e->args.end(),
                    [&](Expr a) { return a->args.empty() || known.settled.count(a.node()); }))
      known.settled.insert(e.node());
  };
  std::function<Expr(Expr)> walk = [&](Expr e) -> Expr {
    if (auto found = done.find(e.node()); found != done.end()) return found->second;
    std::vector<Expr> args;
    bool changed = false;
    for (Expr a : e->args) {
      args.push_back(walk(a));
      changed |= args.back() != a;
    }
    const Expr rebuilt = changed ? with_arguments(e, args) : e;
    // Canonicalisation may have made new floor_divs below a sum; look again at what was rebuilt.
    Expr result = decide_once(rebuilt);
    if (result == rebuilt && changed && rebuilt->kind == ExprKind::call && rebuilt->dtype == DType::i64) {
      result = rewrite(rebuilt, [&](Expr n) -> Expr {
        if (known.settled.count(n.node())) return n;
        Expr d = decide_once(n);
        return d == n ? Expr() : d;
      });
    }
    settle(result);
    done.emplace(e.node(), result);
    return result;
  };
  std::vector<Expr> out;
  for (Expr e : es) out.push_back(e ? walk(e) : e);
  return out;
}

Expr simplify(Expr e, const Bounds& bounds) { return simplify(std::vector<Expr>{e}, bounds)[0]; }

}  // namespace metac
