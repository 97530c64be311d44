#include "compiler/autodiff/factored_sum.h"

#include <algorithm>

#include "compiler/ir/walks.h"

namespace metac {
namespace {

struct Factors {
  Expr factor, rest;  // empty: 1
};

Expr product(Expr a, Expr b) { return !a ? b : !b ? a : a * b; }

class Factoring {
 public:
  Factoring(const Shape& domain, const std::vector<int>& kept, std::vector<Var*>& operands)
      : domain_(domain), kept_(kept), operands_(operands) {}

  // A load of what repeats a smaller value along the sum becomes a load of that value.
  Expr seen_through(Expr body) {
    return rewrite(body, [&](Expr n) -> Expr {
      if (n->kind != ExprKind::load || n->args != identity_indices(static_cast<int>(domain_.size()))) return {};
      const Op* op = operands_[static_cast<size_t>(n->id)]->producer;
      if (!op || op->kind != OpKind::reindex || op->inputs.size() != 1 || !op->conditions.empty()) return {};
      if (!std::all_of(op->indices.begin(), op->indices.end(), [&](Expr e) { return is_constant_along(e); })) return {};
      operands_.push_back(op->inputs[0]);
      return load(static_cast<int>(operands_.size()) - 1, n->dtype, op->indices);
    });
  }

  Factors of(Expr whole) const {
    return answer_once<Factors>(whole, [this](Expr e, const auto& part) { return factors(e, part); });
  }

  // x - m where m is the mean of this very x along the sum.
  bool is_deviation(Expr e) const {
    if (e->kind != ExprKind::call || e->fn != Fn::sub) return false;
    const Expr x = e->args[0], m = e->args[1];
    if (x->kind != ExprKind::load || x->args != identity_indices(static_cast<int>(domain_.size())) ||
        m->kind != ExprKind::load || !is_constant_along(m))
      return false;
    const Op* mean = operands_[static_cast<size_t>(m->id)]->producer;
    if (!mean || mean->kind != OpKind::elementwise || mean->inputs.size() != 1 || mean->bodies.size() != 1) return false;
    const Expr body = mean->bodies[0];
    if (body->kind != ExprKind::call || body->fn != Fn::div || body->args[0]->kind != ExprKind::load ||
        body->args[1]->kind != ExprKind::float_constant)
      return false;
    if (body->args[0]->args != identity_indices(mean->outputs[0]->rank())) return false;
    const Op* sum = mean->inputs[0]->producer;
    if (!sum || sum->kind != OpKind::reindex_reduce || sum->reduce != Reduce::add || sum->inputs.size() != 1 ||
        !sum->conditions.empty())
      return false;
    if (sum->inputs[0] != operands_[static_cast<size_t>(x->id)] || sum->indices != m->args) return false;
    double count = 1;
    for (int k = 0; k < static_cast<int>(domain_.size()); ++k) {
      if (std::count(kept_.begin(), kept_.end(), k)) continue;
      if (!domain_[static_cast<size_t>(k)].if_int()) return false;
      count *= static_cast<double>(domain_[static_cast<size_t>(k)].as_int());
    }
    return body->args[1]->float_value == count;
  }

 private:
  template <class Of>
  Factors factors(Expr e, const Of& of) const {
    if (is_constant_along(e)) return {e, {}};
    if (e->kind != ExprKind::call) return {{}, e};
    switch (e->fn) {
      case Fn::neg: {
        const Factors a = of(e->args[0]);
        return {-(a.factor ? a.factor : one(e)), a.rest};
      }
      case Fn::add:
      case Fn::sub: {
        const Factors a = of(e->args[0]), b = of(e->args[1]);
        if (a.rest != b.rest || (!a.factor && !b.factor && e->fn == Fn::sub)) return {{}, e};
        const Expr left = a.factor ? a.factor : one(e), right = b.factor ? b.factor : one(e);
        return {e->fn == Fn::add ? left + right : left - right, a.rest};
      }
      case Fn::mul: {
        const Factors a = of(e->args[0]), b = of(e->args[1]);
        return {product(a.factor, b.factor), product(a.rest, b.rest)};
      }
      case Fn::div: {
        if (!is_constant_along(e->args[1])) return {{}, e};
        const Factors a = of(e->args[0]);
        return {(a.factor ? a.factor : one(e)) / e->args[1], a.rest};
      }
      default:
        return {{}, e};
    }
  }

  static Expr one(Expr like) { return constant_of(like->dtype, 1); }

  bool is_constant_along(Expr e) const {
    return !any_of(e, [&](Expr n) { return n->kind == ExprKind::axis && !std::count(kept_.begin(), kept_.end(), n->id); });
  }

  const Shape& domain_;
  const std::vector<int>& kept_;
  std::vector<Var*>& operands_;
};

// The axes of its result, ascending, along which the Reindex does not repeat its operand; nothing where it does something
// else.
std::optional<std::vector<int>> axes_kept(const Op& repeat) {
  if (repeat.inputs.size() != 1 || !repeat.conditions.empty()) return std::nullopt;
  std::vector<int> axes;
  for (Expr e : repeat.indices) {
    if (e.is_int(0)) continue;
    if (e->kind != ExprKind::axis || (!axes.empty() && axes.back() >= e->id)) return std::nullopt;
    axes.push_back(e->id);
  }
  return axes;
}

}  // namespace

std::optional<FactoredSum> factor_sum(const Var& adjoint, const Op& repeat) {
  const auto kept = axes_kept(repeat);
  const Op* made = adjoint.producer;
  if (!kept || !made || made->kind != OpKind::elementwise || made->outputs.size() != 1) return std::nullopt;
  if (adjoint.dtype() != DType::f32 && adjoint.dtype() != DType::f64)
    return std::nullopt;  // a narrow type may overflow where the products did not
  FactoredSum out{made->inputs, {}, {}, false};
  Factoring factoring(adjoint.shape(), *kept, out.operands);
  const Factors factors = factoring.of(factoring.seen_through(made->bodies[0]));
  if (!factors.rest) return std::nullopt;
  out.zero = factoring.is_deviation(factors.rest);
  if (!out.zero && !factors.factor) return std::nullopt;
  std::vector<Expr> back(adjoint.shape().size(), Expr(0));
  for (size_t k = 0; k < repeat.indices.size(); ++k)
    if (repeat.indices[k]->kind == ExprKind::axis)
      back[static_cast<size_t>(repeat.indices[k]->id)] = axis(static_cast<int>(k));
  out.factor = factors.factor ? substitute_axes(factors.factor, back) : Expr();
  out.rest = factors.rest;
  return out;
}

}  // namespace metac
