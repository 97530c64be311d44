#include "compiler/tensor/contraction.h"

#include <algorithm>

#include "compiler/ir/walks.h"
#include "compiler/tensor/axes.h"

namespace metac {

bool has_lanes_of_words(Expr epilogue) {
  if (is_bool(epilogue->dtype)) return false;
  return !any_of(epilogue, [](Expr n) {
    if (n->dtype == DType::f64) return true;
    if (n->kind == ExprKind::cast) return is_bool(n->dtype) && size_of(n->args[0]->dtype) != 4;
    if (n->kind != ExprKind::call) return false;
    if (yields_bool(n->fn))  // of positions: of no lanes, and looked at elsewhere
      return n->has_load && std::any_of(n->args.begin(), n->args.end(),
                                        [](Expr a) { return !is_bool(a->dtype) && size_of(a->dtype) != 4; });
    return is_half(n->dtype) && n->fn != Fn::select;
  });
}

// element: of what a product's operands are.
static std::optional<Operand> operand_of(const Factor& f, DType element, bool half) {
  const bool widened = half && !f.scale && !f.zero_point && f.conversions == std::vector<DType>{DType::f32} &&
                       bool(f.load) && is_half(f.load->dtype);
  if (!f.is_element() && !widened) return std::nullopt;
  if ((widened ? DType::f32 : f.load->dtype) != element) return std::nullopt;
  return Operand{f.load, f.conditions, f.outside, {}};
}

bool bounds_index(Expr load, Expr condition) {
  return condition->kind == ExprKind::call && std::any_of(condition->args.begin(), condition->args.end(), [&](Expr bounded) {
           return !bounded.is_constant() && std::find(load->args.begin(), load->args.end(), bounded) != load->args.end();
         });
}

// Conditions on a product go to the operand with the fewest axes that has all of theirs, and to the other where they bound
// an index of it too: where they do not hold it may be read beyond its end, at what is no number.
static bool hand_out(const std::vector<Expr>& conditions, int axes, Contraction& c) {
  const auto axes_of = [&](const Operand& o) { return axes_used(o.load, 0, axes).size(); };
  for (Expr condition : conditions) {
    Operand* owner = nullptr;
    for (Operand* o : {&c.a, &c.b})
      if (covers(o->load, condition) && (!owner || axes_of(*o) < axes_of(*owner))) owner = o;
    if (!owner) return false;
    owner->conditions.push_back(condition);
    Operand& other = owner == &c.a ? c.b : c.a;
    if (bounds_index(other.load, condition)) other.conditions.push_back(condition);
  }
  return true;
}

Expr Contraction::guarded_body() const {
  const auto guarded = [](const Operand& o) {
    const Expr outside = constant_of(o.load->dtype, static_cast<double>(o.outside));
    return select(logical_and(all_of(o.conditions), all_of(o.borders)), o.load, outside);
  };
  return call(product, {guarded(a), guarded(b)});
}

std::optional<Contraction> contraction_of(const Definition& d, bool half) {
  if (d.scatter || (d.accumulator != DType::f32 && d.accumulator != DType::i32)) return std::nullopt;
  const auto s = sum_of_products(d);
  if (!s || !s->conversions.empty()) return std::nullopt;
  if (s->of_words() && dtype_of(s->product, DType::i32) != d.accumulator) return std::nullopt;
  const DType element = s->of_words() ? DType::i32 : d.accumulator;
  auto a = operand_of(s->factors[0], element, half), b = operand_of(s->factors[1], element, half);
  if (!a || !b || a->load == b->load) return std::nullopt;
  if (b->outside != 0 || (s->of_words() ? !s->conditions.empty() : a->outside != 0)) return std::nullopt;
  const int axes = static_cast<int>(d.domain.size());
  Contraction c{*a, *b, s->product, s->of_words() ? axes - 1 : -1};
  return hand_out(s->conditions, axes, c) ? std::optional(c) : std::nullopt;
}

std::optional<Contraction> float_contraction_of(const Definition& d, bool half) {
  return d.accumulator == DType::f32 ? contraction_of(d, half) : std::nullopt;
}

std::optional<Contraction> tiled_contraction_of(const Definition& d, bool half) {
  if (bool(d.epilogue) && (!has_lanes_of_words(d.epilogue) || reads_position(d.epilogue))) return std::nullopt;
  return contraction_of(d, half);
}

int word_position(Expr load, int word_axis) {
  for (size_t k = 0; k < load->args.size() && word_axis >= 0; ++k)
    if (uses_axis(load->args[k], word_axis)) return static_cast<int>(k);
  return -1;
}

}  // namespace metac
