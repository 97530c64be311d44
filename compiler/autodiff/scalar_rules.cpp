#include "compiler/autodiff/scalar_rules.h"

#include <algorithm>
#include <numbers>
#include <unordered_map>

#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

Expr apply(Fn fn, Expr x) { return call(fn, {x}); }
Expr real(double value, Expr like) { return float_constant(value, like->dtype); }
Expr square(Expr x) { return x * x; }
Expr zero(Expr like) { return real(0, like); }

// max and min: `wins` says that this argument alone is the result.
Expr extremum(const std::vector<Expr>& args, int k, Expr wins, Expr adjoint) {
  if (args[k].is_constant()) return {};
  Expr shared = args[1 - k].is_constant() ? zero(adjoint) : adjoint * real(0.5, adjoint);
  return select(wins, adjoint, select(equal(args[0], args[1]), shared, zero(adjoint)));
}

// d times a slope that is infinite where `steep` holds: 0 for a d of 0, so that what does not move there contributes nothing
// rather than NaN. The condition holds d as well, because the product is linear in d everywhere else: a slope of 0 would be
// seen by derivatives by d.
Expr unless_still(Expr d, Expr steep, Expr product) {
  return select(logical_and(steep, equal(d, zero(d))), zero(product), product);
}

}  // namespace

Expr scale_by_derivative(Fn fn, const std::vector<Expr>& args, int k, Expr value, Expr adjoint) {
  const Expr a = args[0], b = args.size() > 1 ? args[1] : Expr(), d = adjoint;
  const auto one = [&] { return real(1, a); };
  switch (fn) {
    case Fn::neg:
      return -d;
    case Fn::abs:
      return d * apply(Fn::sign, a);
    case Fn::sqrt:
      return unless_still(d, equal(value, zero(value)), d * real(0.5, a) / value);
    case Fn::exp:
      return d * value;
    case Fn::log:
      return d / a;
    case Fn::sin:
      return d * apply(Fn::cos, a);
    case Fn::cos:
      return -(d * apply(Fn::sin, a));
    case Fn::tan:
      return d * (one() + square(value));
    case Fn::asin:
      return unless_still(d, equal(square(a), one()), d / apply(Fn::sqrt, one() - square(a)));
    case Fn::acos:
      return unless_still(d, equal(square(a), one()), -(d / apply(Fn::sqrt, one() - square(a))));
    case Fn::atan:
      return d / (one() + square(a));
    case Fn::sinh:
      return d * apply(Fn::cosh, a);
    case Fn::cosh:
      return d * apply(Fn::sinh, a);
    case Fn::tanh:
      return d * (one() - square(value));
    case Fn::asinh:
      return d / apply(Fn::sqrt, square(a) + one());
    case Fn::acosh:
      return unless_still(d, equal(a, one()), d / (apply(Fn::sqrt, a - one()) * apply(Fn::sqrt, a + one())));
    case Fn::atanh:
      return d / (one() - square(a));
    case Fn::erf:
      return d * (real(2 * std::numbers::inv_sqrtpi, a) * apply(Fn::exp, -square(a)));
    case Fn::sigmoid:
      return d * (value * (one() - value));
    case Fn::expm1:
      return d * (value + one());
    case Fn::log1p:
      return d / (one() + a);
    case Fn::add:
      return d;
    case Fn::sub:
      return k == 0 ? d : -d;
    case Fn::mul:
      return d * args[1 - k];
    case Fn::div:
      return k == 0 ? d / b : -(d * value / b);
    case Fn::floor_mod:
      return k == 0 ? d : -(d * call(Fn::floor_div, {a, b}));
    case Fn::trunc_mod:
      return k == 0 ? d : -(d * apply(Fn::trunc, a / b));
    case Fn::pow: {
      if (k == 0 && b->kind == ExprKind::float_constant) {
        if (b->float_value == 0) return {};
        if (b->float_value == 1) return d;
        if (b->float_value == 2) return d * (real(2, a) * a);
        Expr product = d * (b * call(Fn::pow, {a, real(b->float_value - 1, a)}));
        return b->float_value > 0 && b->float_value < 1 ? unless_still(d, equal(a, zero(a)), product) : product;
      }
      if (k == 0) {
        Expr still = logical_and(equal(a, zero(a)), equal(d, zero(d)));
        return select(logical_or(equal(b, zero(b)), still), zero(d), d * (b * call(Fn::pow, {a, b - one()})));
      }
      return select(equal(a, zero(a)), zero(d), d * (value * apply(Fn::log, a)));
    }
    case Fn::atan2: {
      Expr norm = square(a) + square(b);
      return k == 0 ? d * b / norm : -(d * a / norm);
    }
    // Beyond a constant is where the result is: Relu's operand need not be kept for it.
    case Fn::max:
      return extremum(args, k, args[1 - k] < (args[1 - k].is_constant() ? value : args[k]), d);
    case Fn::min:
      return extremum(args, k, (args[1 - k].is_constant() ? value : args[k]) < args[1 - k], d);
    case Fn::select:
      return k == 1 ? select(a, d, zero(d)) : k == 2 ? select(a, zero(d), d) : Expr();
    case Fn::sign:
    case Fn::floor:
    case Fn::ceil:
    case Fn::trunc:
    case Fn::rint:
    case Fn::floor_div:
    case Fn::is_nan:
    case Fn::is_inf:
    case Fn::logical_not:
    case Fn::bit_not:
    case Fn::lt:
    case Fn::le:
    case Fn::eq:
    case Fn::ne:
    case Fn::logical_and:
    case Fn::logical_or:
    case Fn::logical_xor:
    case Fn::bit_and:
    case Fn::bit_or:
    case Fn::bit_xor:
    case Fn::shift_left:
    case Fn::shift_right:
    case Fn::dot_u8s8:
    case Fn::dot_s8u8:
    case Fn::dot_i16:
    case Fn::dot_bf16:
    case Fn::bf16_word:
    case Fn::pairs_s8u8:
    case Fn::pairs_s8s8:
    case Fn::add_i16:
    case Fn::sum_i16:
      return {};
  }
  return {};
}

namespace {

// An adjoint that holds only where `condition` does (empty: everywhere). Conditions stay outermost, so that an infinite
// or NaN derivative of a branch that was not taken is selected away rather than multiplied by zero.
struct Guarded {
  Expr value, condition;
  Expr plain() const { return condition ? select(condition, value, zero(value)) : value; }
};

void accumulate(Guarded& into, const Guarded& more) {
  if (!into.value)
    into = more;
  else if (into.condition == more.condition)
    into.value = into.value + more.value;
  else
    into = {into.plain() + more.plain(), Expr()};
}

Guarded narrowed(const Guarded& outer, Expr condition) {
  return {outer.value, outer.condition ? logical_and(outer.condition, condition) : condition};
}

}  // namespace

std::vector<std::pair<Expr, Expr>> adjoints_of_loads(const std::vector<Expr>& bodies, const std::vector<Expr>& adjoints) {
  std::vector<Expr> order;  // arguments first
  std::unordered_map<Expr, Guarded> adjoint_of;
  std::unordered_map<Expr, bool> seen;
  for (size_t b = 0; b < bodies.size(); ++b) {
    if (!adjoints[b]) continue;
    visit(bodies[b], [&](Expr e) {
      if (!seen.emplace(e, true).second) return;
      order.push_back(e);
    });
    accumulate(adjoint_of[bodies[b]], {adjoints[b], Expr()});
  }
  std::vector<std::pair<Expr, Expr>> out;
  for (size_t at = order.size(); at-- > 0;) {
    Expr e = order[at];
    auto found = adjoint_of.find(e);
    if (found == adjoint_of.end() || !found->second.value) continue;
    const Guarded adjoint = found->second;
    if (e->kind == ExprKind::load) {
      out.emplace_back(e, adjoint.plain());
    } else if (e->kind == ExprKind::cast) {
      if (is_float(e->args[0]->dtype))
        accumulate(adjoint_of[e->args[0]], {cast(adjoint.value, e->args[0]->dtype), adjoint.condition});
    } else if (e->kind == ExprKind::call && e->fn == Fn::select) {
      accumulate(adjoint_of[e->args[1]], narrowed(adjoint, e->args[0]));
      accumulate(adjoint_of[e->args[2]], narrowed(adjoint, logical_not(e->args[0])));
    } else if (e->kind == ExprKind::call) {
      for (size_t k = 0; k < e->args.size(); ++k) {
        if (!is_float(e->args[k]->dtype) || e->args[k].is_constant()) continue;
        Expr scaled = scale_by_derivative(e->fn, e->args, static_cast<int>(k), e, adjoint.value);
        if (scaled) accumulate(adjoint_of[e->args[k]], {scaled, adjoint.condition});
      }
    }
  }
  std::sort(out.begin(), out.end(), [](const auto& x, const auto& y) { return x.first->serial < y.first->serial; });
  return out;
}

Expr tangent_of(Expr body, const std::function<Expr(Expr load)>& tangent_of_load) {
  std::unordered_map<Expr, Expr> tangents;
  visit(body, [&](Expr e) {
    if (!is_float(e->dtype)) return;
    Expr total;
    const auto add = [&](Expr term) {
      if (term) total = total ? total + term : term;
    };
    const auto known = [&](Expr arg) {
      auto found = tangents.find(arg);
      return found == tangents.end() ? Expr() : found->second;
    };
    if (e->kind == ExprKind::load) {
      total = tangent_of_load(e);
    } else if (e->kind == ExprKind::cast) {
      if (Expr inner = known(e->args[0])) total = cast(inner, e->dtype);
    } else if (e->kind == ExprKind::call && e->fn == Fn::select) {
      Expr then = known(e->args[1]), otherwise = known(e->args[2]);
      if (bool(then) || bool(otherwise)) total = select(e->args[0], then ? then : zero(e), otherwise ? otherwise : zero(e));
    } else if (e->kind == ExprKind::call) {
      for (size_t k = 0; k < e->args.size(); ++k)
        if (Expr inner = known(e->args[k])) add(scale_by_derivative(e->fn, e->args, static_cast<int>(k), e, inner));
    }
    if (total) tangents[e] = total;
  });
  auto found = tangents.find(body);
  return found == tangents.end() ? Expr() : found->second;
}

}  // namespace metac
