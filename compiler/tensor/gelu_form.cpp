#include "compiler/tensor/gelu_form.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <vector>

namespace metac {
namespace {

const double slope = std::sqrt(2 / M_PI), cubic = slope * 0.044715;  // tanh's argument is slope * x + cubic * x^3

Expr bare(Expr e) {
  while (e->kind == ExprKind::cast && is_float(e->dtype) && is_float(e->args[0]->dtype)) e = e->args[0];
  return e;
}
bool is_call(Expr e, Fn fn) { return e->kind == ExprKind::call && e->fn == fn; }
bool is_near(double a, double b) { return std::abs(a - b) <= 1e-6 * std::abs(b); }

// x, the hyperbolic tangent, and whatever a gradient is multiplied by.
struct Atoms {
  Expr x, tanh;
  std::vector<Expr> factors;  // loads
};
// Exponents of x and of the tangent, and which factor there is: 0 for none, else its number from 1 on.
using Monomial = std::array<int, 3>;
using Polynomial = std::map<Monomial, double>;  // coefficients other than 0

// Expressions as polynomials; each part of one is looked at once, however often it occurs.
class Expansion {
 public:
  explicit Expansion(Atoms atoms) : atoms_(std::move(atoms)) {}

  // Null: it is none.
  const Polynomial* of(Expr e) {
    e = bare(e);
    auto found = known_.find(e.node());
    if (found == known_.end()) {
      std::optional<Polynomial> p = expand(e);
      found = known_.emplace(e.node(), std::move(p)).first;
    }
    return found->second ? &*found->second : nullptr;
  }

 private:
  std::optional<Polynomial> expand(Expr e) {
    if (e == atoms_.x) return Polynomial{{{1, 0, 0}, 1}};
    if (e == atoms_.tanh) return Polynomial{{{0, 1, 0}, 1}};
    if (e.is_constant()) return e->float_value == 0 ? Polynomial{} : Polynomial{{{0, 0, 0}, e->float_value}};
    for (size_t k = 0; k < atoms_.factors.size(); ++k)
      if (e == atoms_.factors[k]) return Polynomial{{{0, 0, static_cast<int>(k) + 1}, 1}};
    if (e->kind != ExprKind::call || e->args.empty() || e->args.size() > 2) return std::nullopt;
    const Polynomial* a = of(e->args[0]);
    const Polynomial* b = a ? of(e->args.back()) : nullptr;
    if (!b) return std::nullopt;
    Polynomial out;
    if (e->fn == Fn::mul) {
      if (!multiply(*a, *b, out)) return std::nullopt;
    } else if (e->fn == Fn::add || e->fn == Fn::sub) {
      for (auto& [monomial, coefficient] : *a) out[monomial] += coefficient;
      for (auto& [monomial, coefficient] : *b) out[monomial] += e->fn == Fn::add ? coefficient : -coefficient;
    } else if (e->fn == Fn::neg) {
      for (auto& [monomial, coefficient] : *a) out[monomial] = -coefficient;
    } else {
      return std::nullopt;
    }
    std::erase_if(out, [](const auto& term) { return term.second == 0; });
    return out;
  }

  // False: its degree is beyond what a gradient of gelu has, or two factors meet.
  static bool multiply(const Polynomial& a, const Polynomial& b, Polynomial& out) {
    for (auto& [m, c] : a)
      for (auto& [n, d] : b) {
        const Monomial product = {m[0] + n[0], m[1] + n[1], m[2] + n[2]};
        if (product[0] > 3 || product[1] > 2 || (m[2] > 0 && n[2] > 0)) return false;
        out[product] += c * d;
      }
    return true;
  }

  const Atoms atoms_;
  std::map<const ExprNode*, std::optional<Polynomial>> known_;
};

// Is it `times` the expected one?
bool is_multiple(const Polynomial& p, const Polynomial& expected, double times) {
  return p.size() == expected.size() && std::equal(p.begin(), p.end(), expected.begin(), [&](const auto& a, const auto& b) {
           return a.first == b.first && is_near(a.second, times * b.second);
         });
}

bool is_argument_of_tanh(Expr u, Expr x) {
  Expansion expansion({x, {}, {}});
  const Polynomial* p = expansion.of(u);
  return p && is_multiple(*p, {{{1, 0, 0}, slope}, {{3, 0, 0}, cubic}}, 1);
}

// False: there are more than this has; what is shared is a factor each time.
bool factors(Expr e, std::vector<Expr>& out) {
  constexpr size_t most_factors = 16;
  e = bare(e);
  if (is_call(e, Fn::mul)) return factors(e->args[0], out) && factors(e->args[1], out);
  out.push_back(e);
  return out.size() <= most_factors;
}

// u of scale * (1 + tanh(u)).
Expr argument_of_tanh(Expr e, double& scale) {
  if (!is_call(e, Fn::add)) return {};
  double one = 0, times = 1;
  Expr u;
  for (Expr a : e->args) {
    a = bare(a);
    if (a.is_constant()) {
      one += a->float_value;
      continue;
    }
    std::vector<Expr> parts;
    if (!factors(a, parts)) return {};
    for (Expr part : parts) {
      if (part.is_constant())
        times *= part->float_value;
      else if (is_call(part, Fn::tanh) && !u)
        u = part->args[0];
      else
        return {};
    }
  }
  if (!u || one == 0 || !is_near(times, one)) return {};
  scale = one;
  return u;
}

// What is loaded, and the tangents that are taken.
void leaves(Expr e, std::vector<Expr>& loads, std::vector<Expr>& tangents) {
  visit(e, [&](Expr n) {
    if (n->kind == ExprKind::load) loads.push_back(n);
    if (is_call(n, Fn::tanh)) tangents.push_back(n);
  });
}

}  // namespace

Expr argument_of_gelu_tanh(Expr e) {
  std::vector<Expr> parts;
  if (!factors(e, parts)) return {};
  double scale = 1;
  Expr x, u;
  for (Expr part : parts) {
    double more = 1;
    const Expr found = u ? Expr() : argument_of_tanh(part, more);
    if (part.is_constant())
      scale *= part->float_value;
    else if (found)
      u = found;
    else if (!x)
      x = part;
    else
      return {};
    scale *= more;
  }
  if (!x || !u || !is_near(scale, 0.5)) return {};
  return is_argument_of_tanh(u, x) ? x : Expr();
}

// With t = tanh(slope * x + cubic * x^3): (1 + t) / 2 + x (1 - t^2) (slope + 3 cubic x^2) / 2.
std::optional<GeluTanhGradient> match_gelu_tanh_gradient(Expr e) {
  static const Polynomial gradient = {{{0, 0, 0}, 0.5},          {{0, 1, 0}, 0.5},         {{1, 0, 0}, 0.5 * slope},
                                      {{1, 2, 0}, -0.5 * slope}, {{3, 0, 0}, 1.5 * cubic}, {{3, 2, 0}, -1.5 * cubic}};
  Atoms atoms;
  std::vector<Expr> tangents, of_tangent, none;
  leaves(e, atoms.factors, tangents);
  if (tangents.size() != 1) return std::nullopt;
  leaves(tangents[0]->args[0], of_tangent, none);
  if (of_tangent.size() != 1 || !none.empty() || !is_argument_of_tanh(tangents[0]->args[0], of_tangent[0]))
    return std::nullopt;
  atoms.x = of_tangent[0];
  atoms.tanh = tangents[0];
  std::erase(atoms.factors, atoms.x);
  Expansion expansion(atoms);
  const Polynomial* all = expansion.of(e);
  if (!all || atoms.factors.empty()) return std::nullopt;
  std::vector<Polynomial> of_factor(atoms.factors.size() + 1);
  for (auto& [m, coefficient] : *all) of_factor[static_cast<size_t>(m[2])][{m[0], m[1], 0}] = coefficient;
  if (!of_factor[0].empty()) return std::nullopt;
  Expr factor;
  for (size_t k = 0; k < atoms.factors.size(); ++k) {
    const Polynomial& p = of_factor[k + 1];
    const double times = p.empty() ? 0 : p.begin()->second / gradient.begin()->second;
    if (!is_multiple(p, gradient, times)) return std::nullopt;
    Expr term = cast(atoms.factors[k], DType::f32);
    if (!is_near(times, 1)) term = term * float_constant(times, DType::f32);
    factor = factor ? factor + term : term;
  }
  return GeluTanhGradient{atoms.x, factor};
}

}  // namespace metac
