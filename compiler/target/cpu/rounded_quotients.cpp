#include "compiler/target/cpu/rounded_quotients.h"

#include <unordered_map>

#include "compiler/ir/walks.h"
#include "compiler/target/cpu/prepared_values.h"
#include "compiler/target/cpu/word_products.h"
#include "compiler/tensor/axes.h"

namespace metac {
namespace {

bool is_call(Expr e, Fn fn) { return e->kind == ExprKind::call && e->fn == fn; }

// uint8 or int8 of a float.
bool is_byte_of_float(Expr e) {
  return e->kind == ExprKind::cast && (e->dtype == DType::u8 || e->dtype == DType::i8) && e->args[0]->dtype == DType::f32;
}

class RoundedQuotients {
 public:
  explicit RoundedQuotients(RegionState& state) : state_(state) {}

  std::vector<Var*> run() {
    for (Item& item : state_.region.items) {
      if (item.op || item.group.strategy) continue;
      for (Definition& d : item.group.stages) multiply(d);
    }
    return std::move(made_);
  }

 private:
  void multiply(Definition& d) {
    bool any = false;
    const Expr value = rewrite_up(final_value(d), [&](Expr n, const std::vector<Expr>& args) -> Expr {
      if (!is_byte_of_float(n)) return {};
      const Expr rounded = without_quotient(args[0], d);
      any = any || rounded != args[0];
      return cast(rounded, n->dtype);
    });
    if (!any) return;
    final_value(d) = rewrite(value, [&](Expr n) -> Expr {
      if (n->kind != ExprKind::call) return {};
      const Expr ready = prepared(n, d);
      return !ready && n->fn == Fn::select ? n : ready;  // what a condition guards is computed where it holds
    });
    simplify(d, state_.graph.symbols);
  }

  // The same with products for the quotient that is rounded, behind clamps and a zero point.
  Expr without_quotient(Expr e, const Definition& d) const {
    return answer_once<Expr>(e, [&](Expr n, const auto& of) -> Expr {
      if (is_call(n, Fn::rint)) {
        const Expr x = n->args[0];
        return is_call(x, Fn::div) && is_parameter(x->args[1], d) ? call(Fn::rint, {quotient(x->args[0], x->args[1], d)})
                                                                  : n;
      }
      if (!is_call(n, Fn::min) && !is_call(n, Fn::max) && !is_call(n, Fn::add)) return n;
      return call(n->fn, {of(n->args[0]), of(n->args[1])});
    });
  }

  // x / s, with the divisions where they can be prepared.
  Expr quotient(Expr x, Expr s, const Definition& d) const {
    return answer_once<Expr>(x, [&](Expr n, const auto& of) -> Expr {
      if (is_parameter(n, d)) return n / s;
      if (is_call(n, Fn::add) || is_call(n, Fn::sub)) return call(n->fn, {of(n->args[0]), of(n->args[1])});
      if (is_call(n, Fn::mul))
        for (const size_t k : {size_t{0}, size_t{1}})
          if (is_parameter(n->args[k], d)) return n->args[1 - k] * (n->args[k] / s);
      return n * (constant_of(DType::f32, 1) / s);
    });
  }

  // Of parameters alone, and of one of the axes at most.
  bool is_parameter(Expr e, const Definition& d) const {
    if (e->dtype != DType::f32 && e->dtype != DType::i32) return false;
    if (any_of(e, [&](Expr n) { return n->kind == ExprKind::load ? !is_constant(n) : n->kind == ExprKind::symbol; }))
      return false;
    const std::vector<int> axes = long_axes(e, d);
    return axes.empty() || (axes.size() == 1 && axes[0] < d.kept() && d.domain[static_cast<size_t>(axes[0])].if_int());
  }
  // The axes that it uses but for those of one element, a depthwise convolution's channels of a group.
  static std::vector<int> long_axes(Expr e, const Definition& d) {
    std::vector<int> axes = axes_used(e, 0, static_cast<int>(d.domain.size()));
    std::erase_if(axes, [&](int k) { return d.domain[static_cast<size_t>(k)].is_int(1); });
    return axes;
  }
  bool is_constant(Expr load) const {
    return load->id >= 0 && state_.is_constant(state_.graph.vars()[static_cast<size_t>(load->id)].get());
  }

  // What is computed of parameters, as a load of what `prepare` makes of them; empty where it is not.
  Expr prepared(Expr e, const Definition& d) {
    if (!e->has_load || !is_parameter(e, d)) return {};
    const std::vector<int> axes = long_axes(e, d);
    std::vector<Expr> renamed(d.domain.size(), Expr(0)), at;
    Definition p;
    if (!axes.empty()) {
      renamed[static_cast<size_t>(axes[0])] = axis(0);
      p.domain = {d.domain[static_cast<size_t>(axes[0])]};
      at = {axis(axes[0])};
    }
    p.body = substitute_axes(e, renamed);
    Var*& known = known_[p.body];
    if (!known || known->shape() != p.domain) {
      p.nodes = d.nodes;
      known = add_to_prepare(state_, std::move(p), e->dtype);
      made_.push_back(known);
    }
    return load(known->id, e->dtype, at);
  }

  RegionState& state_;
  std::unordered_map<Expr, Var*> known_;
  std::vector<Var*> made_;
};

}  // namespace

std::vector<Var*> rounded_quotients(RegionState& state) { return RoundedQuotients(state).run(); }

}  // namespace metac
