#include "compiler/tensor/contraction.h"

#include <algorithm>
#include <set>

#include "compiler/ir/walks.h"

namespace metac {

static void conjuncts(Expr e, std::vector<Expr>& out, NodeSet& seen) {
  if (!seen.insert(e.node(), {})) return;
  if (e->kind != ExprKind::call || e->fn != Fn::logical_and) return out.push_back(e);
  for (Expr a : e->args) conjuncts(a, out, seen);
}

void conjuncts(Expr e, std::vector<Expr>& out) {
  NodeSet seen;
  conjuncts(e, out, seen);
}

// Takes off the selects around a value that give 0 elsewhere.
static Expr take_conditions(Expr e, std::vector<Expr>& conditions, int64_t* outside = nullptr) {
  auto counts = [&](Expr constant) {
    if (!constant.is_constant() || constant->float_value != 0) return false;
    if (constant->int_value == 0) return !outside || *outside == 0;
    if (!outside || (!conditions.empty() && *outside != constant->int_value)) return false;
    *outside = constant->int_value;
    return true;
  };
  while (e->kind == ExprKind::call && e->fn == Fn::select && counts(e->args[2])) {
    conjuncts(e->args[0], conditions);
    e = e->args[1];
  }
  return e;
}

static std::optional<Operand> match_operand(Expr e) {
  Operand operand;
  e = take_conditions(e, operand.conditions, &operand.outside);
  if (e->kind != ExprKind::load || e->id == reduced_value) return std::nullopt;
  for (Expr index : e->args)
    if (index->has_load) return std::nullopt;
  operand.load = e;
  return operand;
}

bool reads_position(Expr e) {
  return answer_once<bool>(e, [](Expr n, const auto& of) {
    return n->kind == ExprKind::axis ||
           (n->kind != ExprKind::load && std::any_of(n->args.begin(), n->args.end(), [&](Expr a) { return of(a); }));
  });
}

bool has_lanes_of_words(Expr epilogue) {
  if (is_bool(epilogue->dtype)) return false;
  return !any_of(epilogue, [](Expr n) {
    if (n->dtype == DType::f64) return true;
    if (n->kind == ExprKind::cast) return is_bool(n->dtype) && size_of(n->args[0]->dtype) != 4;
    if (n->kind != ExprKind::call) return false;
    if (yields_bool(n->fn))  // of positions: of no lanes, and looked at elsewhere
      return n->has_load && std::any_of(n->args.begin(), n->args.end(),
                                        [](Expr a) { return !is_bool(a->dtype) && size_of(a->dtype) != 4; });
    return (n->dtype == DType::f16 || n->dtype == DType::bf16) && n->fn != Fn::select;
  });
}

static std::vector<int> axes_of(Expr e, const Definition& d) { return axes_used(e, 0, static_cast<int>(d.domain.size())); }

bool covers(Expr load, Expr condition, const Definition& d) {
  std::vector<int> own = axes_of(load, d), wanted = axes_of(condition, d);
  return std::includes(own.begin(), own.end(), wanted.begin(), wanted.end());
}

std::optional<Contraction> match_contraction(const Definition& d) {
  if (bool(d.epilogue) && (!has_lanes_of_words(d.epilogue) || reads_position(d.epilogue))) return std::nullopt;
  return match_products(d);
}

std::optional<Contraction> match_sum_of_products(const Definition& d) {
  if (d.accumulator != DType::f32) return std::nullopt;
  return match_products(d);
}

static bool is_product(Expr e) {
  return e->kind == ExprKind::call &&
         (e->fn == Fn::mul || e->fn == Fn::dot_u8s8 || e->fn == Fn::dot_s8u8 || e->fn == Fn::dot_i16);
}

std::optional<Contraction> match_products(const Definition& d) {
  if (!d.reduce || *d.reduce != Reduce::add || d.scatter || (d.accumulator != DType::f32 && d.accumulator != DType::i32))
    return std::nullopt;
  std::vector<Expr> around;
  Expr product = take_conditions(d.body, around);
  if (!is_product(product)) return std::nullopt;
  auto a = match_operand(product->args[0]), b = match_operand(product->args[1]);
  if (!a || !b || a->load == b->load) return std::nullopt;
  if (a->load->dtype != d.accumulator || b->load->dtype != d.accumulator) return std::nullopt;
  if (product->fn == Fn::mul ? a->outside != 0 || b->outside != 0 : b->outside != 0 || !around.empty()) return std::nullopt;
  for (Expr c : around) {  // a condition on the product goes to the operand with the fewest axes that has all of its axes
    Operand* owner = nullptr;
    for (Operand* o : {&*a, &*b})
      if (covers(o->load, c, d) && (!owner || axes_of(o->load, d).size() < axes_of(owner->load, d).size())) owner = o;
    if (!owner) return std::nullopt;
    owner->conditions.push_back(c);
  }
  return Contraction{*a, *b, product->fn, product->fn == Fn::mul ? -1 : static_cast<int>(d.domain.size()) - 1};
}

int word_position(Expr load, int word_axis) {
  for (size_t k = 0; k < load->args.size() && word_axis >= 0; ++k)
    if (uses_axis(load->args[k], word_axis)) return static_cast<int>(k);
  return -1;
}

std::vector<int> axes_used(Expr e, int from, int to) {
  std::set<int> axes;
  visit(e, [&](Expr n) {
    if (n->kind == ExprKind::axis && n->id >= from && n->id < to) axes.insert(n->id);
  });
  return {axes.begin(), axes.end()};
}

}  // namespace metac
