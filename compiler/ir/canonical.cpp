// The canonicalising constructors of Expr. An int64 expression without loads is kept as
//     constant + sum of coefficient * monomial,   monomial = product of atoms,
// atoms and monomials in a structural order (axes, symbols, then by content hash), so equal dims are equal pointers. Index
// arithmetic is assumed not to overflow and not to divide by 0; where a coefficient would pass 64 bits all the same, the two
// sides stay apart in a call of their own, which linear_form() takes for an atom. Expressions that contain loads are data
// and only fold constants, which wrap around.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "compiler/ir/constant_calls.h"
#include "compiler/ir/expr.h"
#include "compiler/ir/expr_raw.h"
#include "compiler/support/checked.h"

namespace metac {
namespace {
bool is_call(Expr e, Fn fn) { return e->kind == ExprKind::call && e->fn == fn; }
}  // namespace

std::vector<Expr> factors_of(Expr monomial) {
  if (!is_call(monomial, Fn::mul)) return {monomial};
  std::vector<Expr> out = factors_of(monomial->args[0]);
  out.push_back(monomial->args[1]);
  return out;
}

namespace {

bool is_index(Expr e) { return e->dtype == DType::i64 && !e->has_load; }

bool before(Expr a, Expr b) {
  auto rank = [](Expr e) { return e->kind == ExprKind::axis ? 0 : e->kind == ExprKind::symbol ? 1 : 2; };
  if (rank(a) != rank(b)) return rank(a) < rank(b);
  if (rank(a) < 2) return a->id < b->id;
  return a->hash != b->hash ? a->hash < b->hash : a->serial < b->serial;
}

Expr monomial_of(std::vector<Expr> factors) {
  std::sort(factors.begin(), factors.end(), before);
  Expr out = factors[0];
  for (size_t i = 1; i < factors.size(); ++i) out = raw_call(Fn::mul, {out, factors[i]}, DType::i64);
  return out;
}

// What follows returns false where a number would pass 64 bits; the form is of no use then.
[[nodiscard]] bool add_constant(Linear& form, int64_t value) {
  return !__builtin_add_overflow(form.constant, value, &form.constant);
}

[[nodiscard]] bool add_term(Linear& form, Expr atom, int64_t coefficient) {
  if (coefficient == 0) return true;
  auto at = std::lower_bound(form.terms.begin(), form.terms.end(), atom,
                             [](const std::pair<Expr, int64_t>& t, Expr e) { return t.first != e && before(t.first, e); });
  if (at == form.terms.end() || at->first != atom) {
    form.terms.insert(at, {atom, coefficient});
    return true;
  }
  if (__builtin_add_overflow(at->second, coefficient, &at->second)) return false;
  if (at->second == 0) form.terms.erase(at);
  return true;
}

[[nodiscard]] bool add_product(Linear& form, Expr atom, int64_t a, int64_t b) {
  const auto product = checked_mul(a, b);
  return product && add_term(form, atom, *product);
}

[[nodiscard]] bool accumulate(Linear& into, const Linear& form, int64_t factor) {
  const auto constant = checked_mul(form.constant, factor);
  if (!constant || !add_constant(into, *constant)) return false;
  return std::all_of(form.terms.begin(), form.terms.end(),
                     [&](const auto& term) { return add_product(into, term.first, term.second, factor); });
}

Expr index_floor_div(Expr a, Expr b);

// floor_div(y, c)*c*k + floor_mod(y, c)*k is y*k: an index taken apart into digits and put together again.
Expr from_digits(Linear form) {
  for (size_t t = 0; t < form.terms.size(); ++t) {
    auto [digit, k] = form.terms[t];
    if (!is_call(digit, Fn::floor_mod)) continue;
    Expr y = digit->args[0], c = digit->args[1], high = index_floor_div(y, c);
    if (high.if_int() || is_call(high, Fn::add)) continue;
    Expr monomial = c.if_int() ? high : monomial_of([&] {
      std::vector<Expr> factors = factors_of(high), more = factors_of(c);
      factors.insert(factors.end(), more.begin(), more.end());
      return factors;
    }());
    const auto coefficient = c.if_int() ? checked_mul(k, *c.if_int()) : k;
    for (auto& [atom, other] : form.terms) {
      if (atom != monomial || other != coefficient) continue;
      Linear next = form;
      std::erase_if(next.terms, [&](const auto& term) { return term.first == digit || term.first == monomial; });
      if (accumulate(next, linear_form(y), k)) return from_digits(std::move(next));
      break;
    }
  }
  return from_linear(form);
}

// Empty where coefficients pass 64 bits.
// Sixty squares of squares have 2^60 factors: from here on a product is not taken apart.
constexpr size_t most_factors = 32;

Expr multiply(Expr a, Expr b) {
  Linear x = linear_form(a), y = linear_form(b), out;
  if (x.terms.empty()) std::swap(x, y);
  if (y.terms.empty()) return accumulate(out, x, y.constant) ? from_linear(out) : Expr();
  if ((x.terms.size() + 1) * (y.terms.size() + 1) > 32) return monomial_of({a, b});
  const auto constant = checked_mul(x.constant, y.constant);
  if (!constant) return {};
  out.constant = *constant;
  for (auto& [atom, c] : x.terms)
    if (!add_product(out, atom, c, y.constant)) return {};
  for (auto& [atom, c] : y.terms)
    if (!add_product(out, atom, c, x.constant)) return {};
  for (auto& [p, cp] : x.terms)
    for (auto& [q, cq] : y.terms) {
      std::vector<Expr> factors = factors_of(p), more = factors_of(q);
      factors.insert(factors.end(), more.begin(), more.end());
      if (factors.size() > most_factors || !add_product(out, monomial_of(factors), cp, cq)) return {};
    }
  return from_linear(out);
}

// coefficient*monomial / (divisor_coefficient*divisor_monomial), where that is exact.
bool divide_term(Expr monomial, int64_t coefficient, Expr divisor, int64_t divisor_coefficient, Linear& quotient) {
  if (coefficient % divisor_coefficient != 0) return false;
  if (!divisor) return add_term(quotient, monomial, coefficient / divisor_coefficient);
  std::vector<Expr> factors = factors_of(monomial);
  for (Expr f : factors_of(divisor)) {
    auto at = std::find(factors.begin(), factors.end(), f);
    if (at == factors.end()) return false;
    factors.erase(at);
  }
  if (factors.empty()) return add_constant(quotient, coefficient / divisor_coefficient);
  return add_term(quotient, monomial_of(factors), coefficient / divisor_coefficient);
}

// Splits a into quotient*b + rest where that is exact term by term. b: one term or a positive constant.
bool split_division(Expr a, Expr b, Linear& quotient, Linear& rest) {
  Linear divisor = linear_form(b);
  if (divisor.terms.size() > 1 || (divisor.terms.size() == 1 && divisor.constant != 0)) {
    if (a == b) {
      quotient.constant = 1;
      return true;
    }
    return false;
  }
  Expr monomial = divisor.terms.empty() ? Expr() : divisor.terms[0].first;
  int64_t coefficient = divisor.terms.empty() ? divisor.constant : divisor.terms[0].second;
  if (coefficient <= 0) return false;
  Linear form = linear_form(a);
  for (auto& [atom, c] : form.terms)
    if (!divide_term(atom, c, monomial, coefficient, quotient) && !add_term(rest, atom, c)) return false;
  if (!monomial) {
    if (!add_constant(quotient, floor_div(form.constant, coefficient))) return false;
    rest.constant = floor_mod(form.constant, coefficient);
  } else {
    rest.constant = form.constant;
  }
  return true;
}

// Of a divisor and every coefficient, by their magnitudes, of which int64_t lacks one; 1 where that one is common.
static int64_t common_divisor(int64_t divisor, const Linear& form) {
  const auto magnitude = [](int64_t value) {
    return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  };
  uint64_t common = magnitude(divisor);
  for (const auto& [atom, coefficient] : form.terms) common = std::gcd(common, magnitude(coefficient));
  return common > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) ? 1 : static_cast<int64_t>(common);
}

Expr index_floor_div(Expr a, Expr b) {
  if (b.is_int(1)) return a;
  if (b.is_int(0)) return 0;  // as generated code has it
  if (a.is_int(0)) return 0;
  if (a.if_int() && b.if_int()) return floor_div(*a.if_int(), *b.if_int());
  Linear quotient, rest;
  if (!split_division(a, b, quotient, rest)) return raw_call(Fn::floor_div, {a, b}, DType::i64);
  Expr whole = from_linear(quotient);
  if (rest.terms.empty() && (b.if_int() || rest.constant == 0)) return whole;
  if (b.if_int()) {
    // A common factor of the divisor and every coefficient: floor((g*x + k) / (g*d)) = floor((x + floor(k/g)) / d).
    const int64_t g = common_divisor(*b.if_int(), rest);
    if (g > 1) {
      for (auto& term : rest.terms) term.second /= g;
      rest.constant = floor_div(rest.constant, g);
      b = *b.if_int() / g;
      return whole + index_floor_div(from_linear(rest), b);
    }
    if (rest.constant == 0 && rest.terms.size() == 1 && rest.terms[0].second == 1) {
      Expr inner = rest.terms[0].first;
      if (is_call(inner, Fn::floor_div) && inner->args[1].if_int() && *inner->args[1].if_int() > 0)
        if (auto product = checked_mul(*inner->args[1].if_int(), *b.if_int()))
          return whole + index_floor_div(inner->args[0], *product);
    }
  }
  return whole + raw_call(Fn::floor_div, {from_linear(rest), b}, DType::i64);
}

Expr index_floor_mod(Expr a, Expr b) {
  if (b.is_int(1) || b.is_int(0) || a.is_int(0)) return 0;
  if (a.if_int() && b.if_int()) return floor_mod(*a.if_int(), *b.if_int());
  Linear quotient, rest;
  if (!split_division(a, b, quotient, rest)) return raw_call(Fn::floor_mod, {a, b}, DType::i64);
  if (rest.terms.empty() && (b.if_int() || rest.constant == 0)) return rest.constant;
  if (b.if_int()) {
    const int64_t g = common_divisor(*b.if_int(), rest);
    if (g > 1) {  // (g*x + k) mod (g*d) = g*((x + floor(k/g)) mod d) + k mod g
      for (auto& term : rest.terms) term.second /= g;
      int64_t low = floor_mod(rest.constant, g);
      rest.constant = floor_div(rest.constant, g);
      return index_floor_mod(from_linear(rest), *b.if_int() / g) * Expr(g) + Expr(low);
    }
    if (rest.constant == 0 && rest.terms.size() == 1 && rest.terms[0].second == 1) {
      Expr inner = rest.terms[0].first;  // (x mod (m*d)) mod d = x mod d
      if (is_call(inner, Fn::floor_mod) && inner->args[1].if_int() && *inner->args[1].if_int() % *b.if_int() == 0)
        return index_floor_mod(inner->args[0], b);
    }
  }
  return raw_call(Fn::floor_mod, {from_linear(rest), b}, DType::i64);
}

// b - a, where that is a constant.
std::optional<int64_t> difference(Expr a, Expr b) {
  Linear form = linear_form(b);
  if (!accumulate(form, linear_form(a), -1) || !form.terms.empty()) return std::nullopt;
  return form.constant;
}

bool all_constants(const std::vector<Expr>& args, ExprKind kind) {
  return std::all_of(args.begin(), args.end(), [&](Expr a) { return a->kind == kind; });
}

// Empty: the call stays as it is.
Expr call_index(Fn fn, const std::vector<Expr>& args) {
  Linear sum;
  switch (fn) {
    case Fn::neg:
      return accumulate(sum, linear_form(args[0]), -1) ? from_linear(sum) : raw_call(Fn::sub, {0, args[0]}, DType::i64);
    case Fn::add:
    case Fn::sub:
      sum = linear_form(args[0]);
      return accumulate(sum, linear_form(args[1]), fn == Fn::add ? 1 : -1) ? from_digits(std::move(sum)) : Expr();
    case Fn::mul:
      return multiply(args[0], args[1]);
    case Fn::floor_div:
      return index_floor_div(args[0], args[1]);
    case Fn::floor_mod:
      return index_floor_mod(args[0], args[1]);
    default:
      break;
  }
  if (fn != Fn::min && fn != Fn::max && fn != Fn::lt && fn != Fn::le && fn != Fn::eq && fn != Fn::ne) return {};
  const auto gap = difference(args[0], args[1]);
  switch (fn) {
    case Fn::min:
    case Fn::max:
      if (gap) return (*gap >= 0) == (fn == Fn::min) ? args[0] : args[1];
      return before(args[1], args[0]) ? raw_call(fn, {args[1], args[0]}, DType::i64) : Expr();
    case Fn::lt:
      return gap ? bool_constant(*gap > 0) : Expr();
    case Fn::le:
      return gap ? bool_constant(*gap >= 0) : Expr();
    case Fn::eq:
      return gap ? bool_constant(*gap == 0) : Expr();
    default:
      return gap ? bool_constant(*gap != 0) : Expr();
  }
}

Expr call_logical(Fn fn, const std::vector<Expr>& args) {
  if (fn == Fn::logical_not) return is_call(args[0], Fn::logical_not) ? args[0]->args[0] : Expr();
  for (int k = 0; k < 2; ++k) {
    Expr a = args[k], other = args[1 - k];
    if (!a.if_int()) continue;
    if (fn == Fn::logical_and) return a.is_int(1) ? other : bool_constant(false);
    if (fn == Fn::logical_or) return a.is_int(0) ? other : bool_constant(true);
  }
  return args[0] == args[1] && fn != Fn::logical_xor ? args[0] : Expr();
}

}  // namespace

// A canonical sum leans left: each right operand is one term, later in order than the last one of the left operand, and only
// the last of all may be a constant. Any other sum is two that could not be combined: an atom.
Linear linear_form(Expr e) {
  auto atom_of = [](Expr term) {
    return is_call(term, Fn::mul) && is_index(term) && term->args[1].if_int() ? term->args[0] : term;
  };
  auto is_sum = [&](Expr s) {
    if (!is_call(s, Fn::add) || !is_index(s) || is_call(s->args[1], Fn::add)) return false;
    Expr last = is_call(s->args[0], Fn::add) ? s->args[0]->args[1] : s->args[0];
    if (last.if_int() || s->args[1].if_int()) return !last.if_int();
    return atom_of(last) != atom_of(s->args[1]) && before(atom_of(last), atom_of(s->args[1]));
  };
  Linear out;
  auto prepend = [&](Expr term) {
    if (const int64_t* value = term.if_int())
      out.constant = *value;
    else
      out.terms.push_back({atom_of(term), atom_of(term) == term ? 1 : term->args[1].as_int()});
  };
  for (; is_sum(e); e = e->args[0]) prepend(e->args[1]);
  prepend(e);
  std::reverse(out.terms.begin(), out.terms.end());
  return out;
}

Expr from_linear(const Linear& form) {
  Expr out;
  for (auto& [atom, coefficient] : form.terms) {
    Expr term = coefficient == 1 ? atom : raw_call(Fn::mul, {atom, int_constant(coefficient)}, DType::i64);
    out = out ? raw_call(Fn::add, {out, term}, DType::i64) : term;
  }
  if (!out) return form.constant;
  return form.constant == 0 ? out : raw_call(Fn::add, {out, int_constant(form.constant)}, DType::i64);
}

// Half types compute in float32 and are rounded at the end, as lanes do: those hold no half types' arithmetic.
static Expr call_widened(Fn fn, const std::vector<Expr>& args) {
  std::vector<Expr> wide;
  for (Expr a : args) wide.push_back(cast(a, DType::f32));
  const Expr result = call(fn, std::move(wide));
  return yields_bool(fn) ? result : cast(result, args[0]->dtype);
}

Expr call(Fn fn, std::vector<Expr> args) {
  METAC_ASSERT(static_cast<int>(args.size()) == arity(fn), name_of(fn));
  if (fn == Fn::select) {
    METAC_ASSERT(args[1]->dtype == args[2]->dtype, "select of ", name_of(args[1]->dtype), " and ", name_of(args[2]->dtype));
    METAC_ASSERT(is_bool(args[0]->dtype), "select on ", name_of(args[0]->dtype));
    if (args[0].if_int()) return args[0].is_int(0) ? args[2] : args[1];
    if (args[1] == args[2]) return args[1];
    DType dtype = args[1]->dtype;
    return raw_call(fn, std::move(args), dtype);
  }
  for (Expr a : args)
    METAC_ASSERT(a->dtype == args[0]->dtype, name_of(fn), " of ", name_of(args[0]->dtype), " and ", name_of(a->dtype));
  if (all_constants(args, ExprKind::int_constant))
    if (Expr folded = fold_int(fn, args)) return folded;
  if (all_constants(args, ExprKind::float_constant))
    if (Expr folded = fold_float(fn, args)) return folded;
  if (std::all_of(args.begin(), args.end(), is_index))
    if (Expr folded = call_index(fn, args)) return folded;
  if (is_bool(args[0]->dtype) && yields_bool(fn) && fn != Fn::eq && fn != Fn::ne && fn != Fn::lt && fn != Fn::le)
    if (Expr folded = call_logical(fn, args)) return folded;
  if (args.size() == 2 && args[1].is_constant()) {  // exact identities of every dtype
    double c = args[1]->kind == ExprKind::float_constant ? args[1]->float_value : static_cast<double>(args[1]->int_value);
    if (c == 1 && (fn == Fn::mul || fn == Fn::div)) return args[0];
    if (c == 0 && !std::signbit(c) && fn == Fn::sub) return args[0];
    if (c == 0 && fn == Fn::add && is_integer(args[0]->dtype)) return args[0];
  }
  if (args.size() == 2 && args[0].is_constant() && fn == Fn::mul) {
    double c = args[0]->kind == ExprKind::float_constant ? args[0]->float_value : static_cast<double>(args[0]->int_value);
    if (c == 1) return args[1];
  }
  if (is_half(args[0]->dtype)) return call_widened(fn, args);
  const DType dtype = dtype_of(fn, args[0]->dtype);
  return raw_call(fn, std::move(args), dtype);
}

Expr cast(Expr value, DType dtype) {
  if (value->dtype == dtype) return value;
  if (is_half(dtype) && value->kind == ExprKind::cast && value->dtype == DType::f32 && value->args[0]->dtype == dtype)
    return value->args[0];  // widened and rounded again
  if (value->kind == ExprKind::int_constant) {
    if (!is_float(dtype)) return int_constant(value->int_value, dtype);
    double v = value->dtype == DType::u64 ? static_cast<double>(static_cast<uint64_t>(value->int_value))
                                          : static_cast<double>(value->int_value);
    if (dtype == DType::f32)
      v = value->dtype == DType::u64 ? static_cast<float>(static_cast<uint64_t>(value->int_value))
                                     : static_cast<float>(value->int_value);
    return float_constant(v, dtype);
  }
  if (value->kind == ExprKind::float_constant) {
    double v = value->float_value;
    if (is_float(dtype)) return float_constant(v, dtype);
    if (is_bool(dtype)) return bool_constant(v != 0);
    if (std::isfinite(v) && v > -9.2e18 && v < 9.2e18) return int_constant(static_cast<int64_t>(v), dtype);
  }
  return raw_cast(value, dtype);
}

// Do two constants of index arithmetic come to one that 64 bits hold?
static bool folds(Fn fn, const std::vector<Expr>& args) {
  const int64_t a = args[0]->int_value, b = args.back()->int_value;
  switch (fn) {
    case Fn::neg:
      return a != INT64_MIN;
    case Fn::add:
      return checked_add(a, b).has_value();
    case Fn::sub:
      return checked_sub(a, b).has_value();
    case Fn::mul:
      return checked_mul(a, b).has_value();
    case Fn::floor_div:
      return a != INT64_MIN || b != -1;
    default:
      return true;
  }
}

Expr with_arguments(Expr e, std::vector<Expr> args) {
  if (e->kind == ExprKind::cast) return cast(args[0], e->dtype);
  if (e->kind == ExprKind::load) return load(e->id, e->dtype, std::move(args));
  if (is_index(e) && all_constants(args, ExprKind::int_constant) && !folds(e->fn, args))
    return e->fn == Fn::neg ? raw_call(Fn::sub, {0, args[0]}, DType::i64) : raw_call(e->fn, std::move(args), DType::i64);
  return call(e->fn, std::move(args));
}

Expr operator+(Expr a, Expr b) { return call(Fn::add, {a, b}); }
Expr operator-(Expr a, Expr b) { return call(Fn::sub, {a, b}); }
Expr operator*(Expr a, Expr b) { return call(Fn::mul, {a, b}); }
Expr operator/(Expr a, Expr b) { return call(Fn::div, {a, b}); }
Expr operator-(Expr a) { return call(Fn::neg, {a}); }
Expr operator<(Expr a, Expr b) { return call(Fn::lt, {a, b}); }
Expr operator<=(Expr a, Expr b) { return call(Fn::le, {a, b}); }
Expr equal(Expr a, Expr b) { return call(Fn::eq, {a, b}); }
Expr not_equal(Expr a, Expr b) { return call(Fn::ne, {a, b}); }
Expr logical_and(Expr a, Expr b) { return call(Fn::logical_and, {a, b}); }
Expr logical_or(Expr a, Expr b) { return call(Fn::logical_or, {a, b}); }
Expr logical_not(Expr a) { return call(Fn::logical_not, {a}); }

Expr quotient_of(Expr a, Expr b) {
  const Linear divisor = linear_form(b);
  Expr leading;
  int64_t coefficient = divisor.constant;
  size_t degree = 0;
  for (auto& [monomial, c] : divisor.terms)
    if (const size_t factors = factors_of(monomial).size(); factors > degree)
      leading = monomial, coefficient = c, degree = factors;
  if (coefficient <= 0) return 0;
  Expr whole = 0;
  constexpr int most_terms = 16;
  for (int k = 0; k < most_terms; ++k) {
    const Linear rest = linear_form(a - whole * b);
    Linear found;
    for (auto& [monomial, c] : rest.terms)
      if (divide_term(monomial, c, leading, coefficient, found)) break;
    if (found.terms.empty() && found.constant == 0) {
      if (!leading && rest.constant >= coefficient) whole = whole + Expr(floor_div(rest.constant, coefficient));
      break;
    }
    whole = whole + from_linear(found);
  }
  return whole;
}

Expr floor_div(Expr a, Expr b) { return call(Fn::floor_div, {a, b}); }
Expr floor_mod(Expr a, Expr b) { return call(Fn::floor_mod, {a, b}); }
Expr ceil_div(Expr a, Expr b) { return floor_div(a + b - Expr(1), b); }
Expr min(Expr a, Expr b) { return call(Fn::min, {a, b}); }
Expr max(Expr a, Expr b) { return call(Fn::max, {a, b}); }
Expr select(Expr c, Expr a, Expr b) { return call(Fn::select, {c, a, b}); }

}  // namespace metac
