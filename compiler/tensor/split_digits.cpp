#include "compiler/tensor/split_digits.h"

#include <algorithm>
#include <numeric>

namespace metac {
namespace {

bool is_division(Expr e) {
  return e->kind == ExprKind::call && e->dtype == DType::i64 && !e->has_load &&
         (e->fn == Fn::floor_div || e->fn == Fn::floor_mod);
}

// a / b where that is a whole number whatever the dims are; else empty.
Expr exact_quotient(Expr a, Expr b) {
  const Expr quotient = quotient_of(a, b);
  return quotient * b == a ? quotient : Expr();
}

// Where digits of an axis r begin: p in r / p and r % p, p*q in (r / p) % q.
std::vector<Expr> places_of_digits(const std::vector<Expr>& expressions, Expr r) {
  std::vector<Expr> places;
  const auto note = [&](Expr e) {
    if (!is_division(e)) return;
    const Expr of = e->args[0];
    Expr place;
    if (of == r)
      place = e->args[1];
    else if (e->fn == Fn::floor_mod && is_division(of) && of->fn == Fn::floor_div && of->args[0] == r)
      place = of->args[1] * e->args[1];
    if (bool(place) && !place.is_int(1) && !std::count(places.begin(), places.end(), place)) places.push_back(place);
  };
  for (Expr e : expressions) visit(e, note);
  return places;
}

// How long the digits are, the last one first; empty: not every place is so many times the one before.
std::vector<Expr> extents_of_digits(std::vector<Expr> places, Expr extent) {
  std::vector<Expr> extents;
  if (!std::count(places.begin(), places.end(), extent)) places.push_back(extent);
  for (Expr reached = 1; !places.empty();) {
    const auto next = std::find_if(places.begin(), places.end(), [&](Expr place) {
      return std::all_of(places.begin(), places.end(), [&](Expr other) { return bool(exact_quotient(other, place)); });
    });
    if (next == places.end()) return {};
    const Expr digit = exact_quotient(*next, reached);
    if (!digit) return {};
    extents.push_back(digit);
    reached = *next;
    places.erase(next);
  }
  return extents;
}

// The definition with axis r as digits of these extents; empty: a division of them is left.
std::optional<Definition> with_digits(const Definition& d, size_t r, const std::vector<Expr>& extents,
                                      const std::vector<Symbol>& symbols) {
  const size_t count = extents.size();
  Definition apart = d;
  std::vector<Expr> renamed;
  Expr whole = 0, place = 1;
  for (size_t k = 0; k < count; ++k) {
    whole = whole + axis(static_cast<int>(r + count - 1 - k)) * place;
    place = place * extents[k];
  }
  for (size_t k = 0; k < d.domain.size(); ++k)
    renamed.push_back(k < r ? axis(static_cast<int>(k)) : k == r ? whole : axis(static_cast<int>(k + count - 1)));
  const auto at = apart.domain.erase(apart.domain.begin() + static_cast<int64_t>(r));
  apart.domain.insert(at, extents.rbegin(), extents.rend());
  apart.reduced += static_cast<int>(count) - 1;
  apart.body = substitute_axes(d.body, renamed);
  simplify(apart, symbols);
  std::vector<int> digits(count);
  std::iota(digits.begin(), digits.end(), static_cast<int>(r));
  if (divides_axes(apart.body, digits)) return std::nullopt;
  return apart;
}

}  // namespace

std::vector<Expr> digits_of(const std::vector<Expr>& expressions, Expr r, Expr extent) {
  const std::vector<Expr> places = places_of_digits(expressions, r);
  if (places.empty()) return {};
  std::vector<Expr> extents = extents_of_digits(places, extent);
  return extents.size() < 2 ? std::vector<Expr>() : extents;
}

bool divides_axes(Expr expression, const std::vector<int>& axes) {
  return any_of(expression, [&](Expr e) {
    return is_division(e) && std::any_of(axes.begin(), axes.end(), [&](int id) { return uses_axis(e, id); });
  });
}

bool split_summed_digits(Definition& d, const std::vector<Symbol>& symbols) {
  if (!d.reduce || d.scatter || bool(d.products)) return false;
  bool any = false;
  for (size_t r = d.domain.size(); r-- > static_cast<size_t>(d.kept());) {
    const std::vector<Expr> extents = digits_of({d.body}, axis(static_cast<int>(r)), d.domain[r]);
    if (extents.empty()) continue;
    if (auto apart = with_digits(d, r, extents, symbols)) d = std::move(*apart), any = true;
  }
  return any;
}

}  // namespace metac
