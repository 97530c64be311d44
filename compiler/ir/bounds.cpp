#include "compiler/ir/bounds.h"

#include <algorithm>

#include "compiler/support/checked.h"

namespace metac {
namespace {

constexpr int64_t limit = int64_t{1} << 62;
constexpr Interval anything{-limit, limit};

int64_t saturate(__int128 v) { return v > limit ? limit : v < -limit ? -limit : static_cast<int64_t>(v); }

Interval product(Interval a, Interval b) {
  __int128 c[] = {(__int128)a.low * b.low, (__int128)a.low * b.high, (__int128)a.high * b.low, (__int128)a.high * b.high};
  return {saturate(*std::min_element(c, c + 4)), saturate(*std::max_element(c, c + 4))};
}

Interval sum(Interval a, Interval b) {
  auto side = [](int64_t x, int64_t y) {
    if (x == limit || y == limit) return limit;
    if (x == -limit || y == -limit) return -limit;
    return saturate((__int128)x + y);
  };
  return {side(a.low, b.low), side(a.high, b.high)};
}

}  // namespace

Bounds::Bounds(const std::vector<Symbol>& symbols, const Shape& domain) {
  for (const Symbol& s : symbols) symbols_.push_back({std::max(s.min, -limit), std::min(s.max, limit)});
  for (size_t k = 0; k < domain.size(); ++k) extents_[static_cast<int>(k)] = domain[k];
}

Interval Bounds::interval(Expr e) const {
  if (const int64_t* value = e.if_int()) return {*value, *value};
  switch (e->kind) {
    case ExprKind::axis: {
      auto found = extents_.find(e->id);
      if (found == extents_.end()) return anything;
      return {0, std::max<int64_t>(interval(found->second).high - 1, 0)};
    }
    case ExprKind::symbol:
      return e->id < static_cast<int>(symbols_.size()) ? symbols_[e->id] : anything;
    case ExprKind::load:
      return e->dtype == DType::boolean ? Interval{0, 1} : size_of(e->dtype) < 8 && is_integer(e->dtype) ? Interval{min_value(e->dtype), max_value(e->dtype)} : anything;
    case ExprKind::cast:
      if (is_bool(e->dtype)) return {0, 1};
      if (is_integer(e->args[0]->dtype) || is_bool(e->args[0]->dtype)) {
        Interval from = interval(e->args[0]);
        if (size_of(e->dtype) == 8 || (from.low >= min_value(e->dtype) && from.high <= max_value(e->dtype))) return from;
      }
      return anything;
    default: break;
  }
  if (is_bool(e->dtype) && e->kind == ExprKind::call && e->fn != Fn::select) {
    if (e->args[0]->dtype != DType::i64) return {0, 1};
    Interval a = interval(e->args[0]), b = interval(e->args.back());
    if (e->fn == Fn::lt) return {a.high < b.low, a.low < b.high};
    if (e->fn == Fn::le) return {a.high <= b.low, a.low <= b.high};
    if (e->fn == Fn::eq && (a.high < b.low || b.high < a.low)) return {0, 0};
    if (e->fn == Fn::ne && (a.high < b.low || b.high < a.low)) return {1, 1};
    return {0, 1};
  }
  if (e->kind != ExprKind::call || e->dtype != DType::i64) return anything;
  Interval a = interval(e->args[0]);
  if (e->fn == Fn::neg) return {-a.high, -a.low};
  if (e->fn == Fn::abs) return a.low >= 0 ? a : a.high <= 0 ? Interval{-a.high, -a.low} : Interval{0, std::max(-a.low, a.high)};
  if (e->args.size() < 2) return anything;
  Interval b = interval(e->args[1]);
  switch (e->fn) {
    case Fn::add: return sum(a, b);
    case Fn::sub: return sum(a, {-b.high, -b.low});
    case Fn::mul: return product(a, b);
    case Fn::div:
      if (a.low < 0) return anything;
      [[fallthrough]];
    case Fn::floor_div:
      if (b.low < 0) {  // either sign; no quotient is larger than the dividend
        const int64_t most = std::max(-a.low, a.high);
        return {-most, most};
      }
      if (b.low == 0) return a.low >= 0 ? Interval{0, a.high} : anything;
      return {a.low >= 0 ? a.low / b.high : floor_div(a.low, b.low), a.high >= 0 ? a.high / b.low : floor_div(a.high, b.high)};
    case Fn::floor_mod:
      if (b.low <= 0) return b.low == 0 ? Interval{0, b.high} : anything;
      return {0, std::min(b.high - 1, a.low >= 0 ? a.high : limit)};
    case Fn::min: return {std::min(a.low, b.low), std::min(a.high, b.high)};
    case Fn::max: return {std::max(a.low, b.low), std::max(a.high, b.high)};
    case Fn::select: {
      Interval c = interval(e->args[2]);
      return {std::min(b.low, c.low), std::max(b.high, c.high)};
    }
    default: return anything;
  }
}

// e > 0 for all values: first axes go to the end of their range that makes e least, symbolically; then by intervals.
bool Bounds::proves_positive(Expr e) const {
  if (interval(e).low > 0) return true;
  Linear form = linear_form(e);
  for (auto& [monomial, coefficient] : form.terms) {
    // The axis in this monomial, if all other factors are known to be nonnegative.
    Expr the_axis;
    int axes = 0;
    visit(monomial, [&](Expr n) {
      if (n->kind == ExprKind::axis && extents_.count(n->id)) the_axis = n, ++axes;
    });
    if (axes != 1) continue;
    bool linear = monomial == the_axis;
    if (!linear && monomial->kind == ExprKind::call && monomial->fn == Fn::mul) {
      linear = true;
      visit(monomial, [&](Expr n) {
        if (n->kind == ExprKind::symbol) linear &= interval(n).low >= 0;
        else linear &= n == the_axis || (n->kind == ExprKind::call && n->fn == Fn::mul);
      });
    }
    if (!linear) continue;
    Expr extreme = coefficient > 0 ? Expr(0) : extents_.at(the_axis->id) - Expr(1);
    Expr replaced = rewrite(monomial, [&](Expr n) { return n == the_axis ? extreme : Expr(); });
    return proves_positive(e - monomial * Expr(coefficient) + replaced * Expr(coefficient));
  }
  // c*floor(x/c) lies in (x - c, x].
  for (auto& [atom, coefficient] : form.terms) {
    if (atom->kind != ExprKind::call || atom->fn != Fn::floor_div || !atom->args[1].if_int()) continue;
    int64_t c = *atom->args[1].if_int();
    if (c <= 1 || coefficient % c != 0) continue;
    Expr bound = coefficient > 0 ? atom->args[0] - Expr(c - 1) : atom->args[0];
    return proves_positive(e - atom * Expr(coefficient) + bound * Expr(coefficient / c));
  }
  return false;
}

bool Bounds::proves_less(Expr a, Expr b) const {
  if (a->has_load || b->has_load) return interval(a).high < interval(b).low;
  return proves_positive(b - a);
}

bool Bounds::proves(Expr c) const {
  if (const int64_t* value = c.if_int()) return *value != 0;
  if (c->kind != ExprKind::call) return false;
  switch (c->fn) {
    case Fn::logical_and: return proves(c->args[0]) && proves(c->args[1]);
    case Fn::logical_or: return proves(c->args[0]) || proves(c->args[1]);
    case Fn::lt: return c->args[0]->dtype == DType::i64 && proves_less(c->args[0], c->args[1]);
    case Fn::le: return c->args[0]->dtype == DType::i64 && proves_less(c->args[0], c->args[1] + Expr(1));
    case Fn::ne:
      return c->args[0]->dtype == DType::i64 && (proves_less(c->args[0], c->args[1]) || proves_less(c->args[1], c->args[0]));
    case Fn::logical_not: {
      Expr inner = c->args[0];
      if (inner->kind != ExprKind::call || inner->args[0]->dtype != DType::i64) return false;
      if (inner->fn == Fn::lt) return proves(inner->args[1] <= inner->args[0]);
      if (inner->fn == Fn::le) return proves(inner->args[1] < inner->args[0]);
      return false;
    }
    default: return false;
  }
}

// floor((g*x + r) / (g*d)) = floor(x / d) and (g*x + r) mod (g*d) = g*(x mod d) + r where r is known to be in [0, g).
static Expr split_low_part(Expr e, const Bounds& bounds) {
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
    if (e->fn == Fn::floor_div) return simplify(floor_div(from_linear(high), *divisor / g), bounds);
    return simplify(floor_mod(from_linear(high), *divisor / g), bounds) * Expr(g) + from_linear(low);
  }
  return e;
}

static Expr decide(Expr e, const Bounds& bounds) {
  if (e->kind != ExprKind::call) return e;
  auto index = [&](size_t k) { return e->args[k]->dtype == DType::i64; };
  switch (e->fn) {
    case Fn::floor_div:
      if (index(0) && bounds.proves_at_least(e->args[0], 0) && bounds.proves_less(e->args[0], e->args[1])) return 0;
      return index(0) && !e->has_load ? split_low_part(e, bounds) : e;
    case Fn::floor_mod:
      if (index(0) && bounds.proves_at_least(e->args[0], 0) && bounds.proves_less(e->args[0], e->args[1])) return e->args[0];
      return index(0) && !e->has_load ? split_low_part(e, bounds) : e;
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
    default: return e;
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
    return found != known.decided.end() ? found->second : known.decided.emplace(e.node(), decide(e, bounds)).first->second;
  };
  std::function<Expr(Expr)> walk = [&](Expr e) -> Expr {
    if (auto found = done.find(e.node()); found != done.end()) return found->second;
    std::vector<Expr> args;
    bool changed = false;
    for (Expr a : e->args) {
      args.push_back(walk(a));
      changed |= args.back() != a;
    }
    Expr rebuilt = e;
    if (changed) rebuilt = e->kind == ExprKind::call ? call(e->fn, args) : e->kind == ExprKind::cast ? cast(args[0], e->dtype) : load(e->id, e->dtype, args);
    // Canonicalisation may have made new floor_divs below a sum; look again at what was rebuilt.
    Expr result = decide_once(rebuilt);
    if (result == rebuilt && changed && rebuilt->kind == ExprKind::call && rebuilt->dtype == DType::i64) {
      result = rewrite(rebuilt, [&](Expr n) -> Expr {
        Expr d = decide_once(n);
        return d == n ? Expr() : d;
      });
    }
    done.emplace(e.node(), result);
    return result;
  };
  std::vector<Expr> out;
  for (Expr e : es) out.push_back(e ? walk(e) : e);
  return out;
}

Expr simplify(Expr e, const Bounds& bounds) { return simplify(std::vector<Expr>{e}, bounds)[0]; }

}  // namespace metac
