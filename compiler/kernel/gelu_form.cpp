#include "compiler/kernel/gelu_form.h"

#include <array>
#include <cmath>
#include <optional>
#include <vector>

namespace metac {
namespace {

constexpr size_t most_degree = 3;
using Polynomial = std::array<double, most_degree + 1>;   // coefficients, the constant first

Expr bare(Expr e) {
  while (e->kind == ExprKind::cast && is_float(e->dtype) && is_float(e->args[0]->dtype)) e = e->args[0];
  return e;
}
bool is_call(Expr e, Fn fn) { return e->kind == ExprKind::call && e->fn == fn; }
bool is_near(double a, double b) { return std::abs(a - b) <= 1e-6 * std::abs(b); }

// `e` as a polynomial in x.
std::optional<Polynomial> polynomial(Expr e, Expr x) {
  e = bare(e);
  Polynomial p{};
  if (e == x) return p[1] = 1, p;
  if (e.is_constant()) return p[0] = e->float_value, p;
  if (e->kind != ExprKind::call || e->args.empty()) return std::nullopt;
  const std::optional<Polynomial> a = polynomial(e->args[0], x);
  if (!a || (e->fn != Fn::neg && e->args.size() != 2)) return std::nullopt;
  if (e->fn == Fn::neg) {
    for (size_t k = 0; k <= most_degree; ++k) p[k] = -(*a)[k];
    return p;
  }
  const std::optional<Polynomial> b = polynomial(e->args[1], x);
  if (!b) return std::nullopt;
  for (size_t k = 0; k <= most_degree; ++k) {
    if (e->fn == Fn::add) p[k] = (*a)[k] + (*b)[k];
    else if (e->fn == Fn::sub) p[k] = (*a)[k] - (*b)[k];
    else if (e->fn != Fn::mul) return std::nullopt;
    for (size_t j = 0; j <= most_degree && e->fn == Fn::mul; ++j) {
      const double term = (*a)[k] * (*b)[j];
      if (term == 0) continue;
      if (k + j > most_degree) return std::nullopt;
      p[k + j] += term;
    }
  }
  return p;
}

void factors(Expr e, std::vector<Expr>& out) {
  e = bare(e);
  if (!is_call(e, Fn::mul)) return out.push_back(e);
  for (Expr a : e->args) factors(a, out);
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
    factors(a, parts);
    for (Expr part : parts) {
      if (part.is_constant()) times *= part->float_value;
      else if (is_call(part, Fn::tanh) && !u) u = part->args[0];
      else return {};
    }
  }
  if (!u || one == 0 || !is_near(times, one)) return {};
  scale = one;
  return u;
}

}  // namespace

Expr argument_of_gelu_tanh(Expr e) {
  std::vector<Expr> parts;
  factors(e, parts);
  double scale = 1;
  Expr x, u;
  for (Expr part : parts) {
    double more = 1;
    const Expr found = u ? Expr() : argument_of_tanh(part, more);
    if (part.is_constant()) scale *= part->float_value;
    else if (found) u = found;
    else if (!x) x = part;
    else return {};
    scale *= more;
  }
  if (!x || !u || !is_near(scale, 0.5)) return {};
  const std::optional<Polynomial> p = polynomial(u, x);
  const double slope = std::sqrt(2 / M_PI);
  const bool good = p && (*p)[0] == 0 && is_near((*p)[1], slope) && (*p)[2] == 0 && is_near((*p)[3], slope * 0.044715);
  return good ? x : Expr();
}

}  // namespace metac
