#include "compiler/autodiff/reverse.h"

#include <algorithm>
#include <optional>

#include "compiler/autodiff/code_rules.h"
#include "compiler/autodiff/external_rules.h"
#include "compiler/autodiff/factored_sum.h"
#include "compiler/autodiff/given_rules.h"
#include "compiler/autodiff/gradient.h"
#include "compiler/autodiff/scalar_rules.h"
#include "compiler/ir/bounds.h"
#include "compiler/ir/builders.h"
#include "compiler/ir/reads.h"
#include "compiler/ir/walks.h"
#include "compiler/support/diagnostic.h"

namespace metac {

Var* zeros_like(Graph& graph, const Var* var) { return fill(graph, var->shape(), constant_of(var->dtype(), 0)); }

Var* sum_of(Graph& graph, const std::vector<Var*>& terms) {
  if (terms.size() <= 1) return terms.empty() ? nullptr : terms[0];
  Expr body;
  for (size_t k = 0; k < terms.size(); ++k) {
    Expr term = load(static_cast<int>(k), terms[k]->dtype(), identity_indices(terms[k]->rank()));
    body = body ? body + term : term;
  }
  return graph.elementwise(terms, terms[0]->shape(), body);
}

namespace {

// Renumbers the loads in `exprs` so that only operands in use remain; the first `kept` always do.
std::vector<Var*> trim(const std::vector<Var*>& operands, size_t kept, std::vector<Expr*> exprs) {
  std::vector<bool> used(operands.size(), false);
  std::fill(used.begin(), used.begin() + kept, true);
  for (Expr* e : exprs)
    visit(*e, [&](Expr n) {
      if (n->kind == ExprKind::load) used[n->id] = true;
    });
  std::vector<Var*> out;
  std::vector<int> number(operands.size(), -1);
  for (size_t k = 0; k < operands.size(); ++k) {
    if (!used[k]) continue;
    auto same = k < kept ? out.end() : std::find(out.begin() + kept, out.end(), operands[k]);
    if (same != out.end()) {
      number[k] = static_cast<int>(same - out.begin());
    } else {
      number[k] = static_cast<int>(out.size());
      out.push_back(operands[k]);
    }
  }
  for (Expr* e : exprs)
    *e = rewrite_loads(*e, [&](Expr n, const std::vector<Expr>& indices) { return load(number[n->id], n->dtype, indices); });
  return out;
}

// Where every element of `from` goes to a place of its own in `to`, and all places are taken: the index of the element that
// comes to a place. Axes in another order or left out (Transpose, Squeeze), and other dims over the same memory (Reshape).
std::optional<std::vector<Expr>> inverse_of(const std::vector<Expr>& at, const Shape& from, const Shape& to,
                                            const std::vector<Symbol>& symbols) {
  std::vector<Expr> back(from.size());
  bool in_order = true;
  for (size_t k = 0; k < at.size() && in_order; ++k) {
    if (at[k]->kind == ExprKind::axis) {
      const size_t j = static_cast<size_t>(at[k]->id);
      in_order = !back[j] && to[k] == from[j];
      back[j] = axis(static_cast<int>(k));
    } else {
      in_order = at[k].is_int(0) && to[k].is_int(1);
    }
  }
  for (size_t j = 0; j < from.size() && in_order; ++j) {
    in_order = static_cast<bool>(back[j]) || from[j].is_int(1);
    if (!back[j]) back[j] = Expr(0);
  }
  if (in_order) return back;
  const Bounds before(symbols, from), after(symbols, to);
  for (Expr e : at)
    if (e->has_load) return std::nullopt;
  if (simplify(element_count(from), before) != simplify(element_count(to), before)) return std::nullopt;
  const Expr here = linear_index(from, identity_indices(static_cast<int>(from.size())));
  if (simplify(linear_index(to, at), before) != simplify(here, before)) return std::nullopt;
  back = unravel_index(from, linear_index(to, identity_indices(static_cast<int>(to.size()))));
  for (Expr& e : back) e = simplify(e, after);
  return back;
}

std::vector<Expr*> pointers(std::vector<Expr>& a, std::vector<Expr>& b) {
  std::vector<Expr*> out;
  for (auto* list : {&a, &b})
    for (Expr& e : *list) out.push_back(&e);
  return out;
}

std::vector<Var*> with_first(Var* first, const Op& op) {
  std::vector<Var*> operands = op.inputs;
  operands[0] = first;
  return operands;
}

Expr identity_load(int id, const Var* var) { return load(id, var->dtype(), identity_indices(var->rank())); }

}  // namespace

Var* trimmed_elementwise(Graph& graph, const std::vector<Var*>& operands, const Shape& shape, Expr body) {
  std::vector<Var*> used = trim(operands, 0, {&body});
  return graph.elementwise(std::move(used), shape, body);
}

Var* trimmed_reindex(Graph& graph, Var* first, const Op& op, const Shape& shape, const std::vector<Expr>& indices) {
  std::vector<Expr> at = indices, conditions = op.conditions;
  std::vector<Var*> used = trim(with_first(first, op), 1, pointers(at, conditions));
  return graph.reindex(std::move(used), shape, at, conditions);
}

Var* trimmed_reduce(Graph& graph, Var* first, const Op& op, const Shape& shape, const std::vector<Expr>& indices) {
  std::vector<Expr> at = indices, conditions = op.conditions;
  std::vector<Var*> used = trim(with_first(first, op), 1, pointers(at, conditions));
  if (used.size() == 1 && conditions.empty())
    if (auto back = inverse_of(at, first->shape(), shape, graph.symbols))
      return graph.reindex(std::move(used), shape, *back);
  return graph.reindex_reduce(std::move(used), shape, at, Reduce::add, conditions);
}

// ---- the walk ----
Reverse::Reverse(Graph& graph, std::vector<Op*>& ops, const std::vector<Var*>& wrt)
    : graph_(graph), ops_(ops), count_(ops.size()), again_(graph, ops) {
  active_.insert(wrt.begin(), wrt.end());
  for (const Op* op : ops) {
    const std::vector<Var*> read = reads_of(*op).vars;
    if (std::none_of(read.begin(), read.end(), [&](const Var* v) { return is_active(v); })) continue;
    for (const Var* out : op->outputs)
      if (is_float(out->dtype()) && !out->stop_grad) active_.insert(out);
  }
  find_what_may_be_nan();
}

// Is the derivative of the op finite wherever its operands are, and never NaN times its adjoint?
static bool is_polynomial(const Op& op) {
  bool only = true;
  for (Expr body : op.bodies)
    metac::visit(body, [&](Expr e) {
      if (e->kind == ExprKind::call)
        only &= e->fn == Fn::add || e->fn == Fn::sub || e->fn == Fn::mul || e->fn == Fn::neg || e->fn == Fn::select ||
                e->fn == Fn::max || e->fn == Fn::min;
    });
  return only;
}

// A value of which Where takes some elements may be NaN in the others (a softmax of a row of which nothing is left). Then
// the derivatives of what it is made of are NaN there as well, and NaN times the adjoint 0 is no 0: those terms are left
// out. As far back as the next product of two values.
void Reverse::find_what_may_be_nan() {
  for (size_t k = count_; k-- > 0;) {
    const Op& op = *ops_[k];
    if (op.kind == OpKind::elementwise)
      for (Expr body : op.bodies)
        metac::visit(body, [&](Expr e) {
          if (e->kind != ExprKind::call || e->fn != Fn::select) return;
          for (int branch : {1, 2}) {
            if (e->args[branch]->kind != ExprKind::load) continue;
            const int id = e->args[branch]->id;
            // A function with pieces (x < 0 ? a x : x) passes a NaN on.
            const bool pieces = any_of(e->args[0], [&](Expr c) { return c->kind == ExprKind::load && c->id == id; });
            const bool asks = any_of(e->args[0], [](Expr c) { return c->kind == ExprKind::call && c->fn == Fn::is_nan; });
            if ((!pieces || asks) && is_active(op.inputs[id])) may_be_nan_.insert(op.inputs[id]);
          }
        });
    if (may_be_nan_.empty() ||
        std::none_of(op.outputs.begin(), op.outputs.end(), [&](const Var* v) { return may_be_nan_.contains(v); }))
      continue;
    const bool product = op.kind == OpKind::elementwise && op.bodies[0]->kind == ExprKind::call &&
                         op.bodies[0]->fn == Fn::mul && op.inputs.size() > 1;
    if (product || (op.kind != OpKind::elementwise && op.kind != OpKind::reindex && op.kind != OpKind::reindex_reduce))
      continue;
    for (const Var* v : op.inputs)
      if (is_active(v)) may_be_nan_.insert(v);
  }
}

void Reverse::add_adjoint(Var* var, Var* adjoint) {
  if (adjoint && is_active(var)) adjoints_[again_.original(var)].push_back(adjoint);
}

Var* Reverse::adjoint(Var* var) {
  auto found = adjoints_.find(again_.original(var));
  if (found == adjoints_.end()) return nullptr;
  Var* sum = sum_of(graph_, found->second);
  found->second = {sum};
  return sum;
}

void Reverse::walk() {
  for (size_t k = count_; k-- > 0;) {
    Op& op = *ops_[k];
    if (std::none_of(op.outputs.begin(), op.outputs.end(), [&](const Var* v) { return adjoints_.contains(v); })) continue;
    const Origin before = graph_.origin();
    graph_.set_origin(op.origin);
    visit(again_.read_by_derivatives(op));
    graph_.set_origin(before);
    // An op that was put in front of this one (a bind for a saved state) shifted the list.
    while (ops_[k] != &op) ++k;
  }
}

void Reverse::visit(Op& op) {
  switch (op.kind) {
    case OpKind::elementwise:
      return elementwise(op);
    case OpKind::reindex:
      return reindex(op);
    case OpKind::reindex_reduce:
      return reindex_reduce(op);
    case OpKind::if_:
      return if_(op);
    case OpKind::loop:
      return loop(op);
    case OpKind::bind:
      return;
    case OpKind::code: {
      const std::vector<Var*> contributions =
          code_gradients(graph_, op, adjoint(op.outputs[0]), [this](const Var* v) { return is_active(v); });
      for (size_t k = 0; k < contributions.size(); ++k) add_adjoint(op.inputs[k], contributions[k]);
      return;
    }
    case OpKind::external: {
      const ExternalGradient* rule = find_external_gradient(op.routine);
      if (!rule) fail("the routine ", op.routine, " has no derivative");
      std::vector<Var*> adjoints;
      for (Var* out : op.outputs) adjoints.push_back(adjoint(out));
      const std::vector<Var*> contributions = rule->reverse(graph_, op, adjoints);
      for (size_t k = 0; k < contributions.size(); ++k) add_adjoint(op.inputs[k], contributions[k]);
      return;
    }
  }
}

void Reverse::elementwise(Op& op) {
  const Shape& domain = op.outputs[0]->shape();
  std::vector<Var*> operands = op.inputs;
  std::vector<Expr> seeds;
  for (Var* out : op.outputs) {
    Var* given = adjoint(out);
    seeds.push_back(given ? identity_load(static_cast<int>(operands.size()), given) : Expr());
    if (given) operands.push_back(given);
  }
  // A derivative often contains the result itself (exp, tanh, sigmoid): read it instead of computing it again.
  std::unordered_map<Expr, Expr> results;
  for (size_t b = 0; b < op.bodies.size(); ++b) {
    if (op.bodies[b]->kind != ExprKind::call || !is_float(op.bodies[b]->dtype)) continue;
    results[op.bodies[b]] = identity_load(static_cast<int>(operands.size()), op.outputs[b]);
    operands.push_back(op.outputs[b]);
  }
  const std::optional<GivenGradient> given = given_gradient_of(op);
  for (auto& [place, value] : given ? given_adjoints(op, *given, seeds[0]) : adjoints_of_loads(op.bodies, seeds)) {
    Var* operand = op.inputs[place->id];
    if (!is_active(operand)) continue;
    Expr body = rewrite(value, [&](Expr n) -> Expr {
      auto found = results.find(n);
      return found == results.end() ? Expr() : found->second;
    });
    for (size_t b = 0; b < op.outputs.size() && !is_polynomial(op); ++b) {
      if (!seeds[b] || !may_be_nan_.contains(again_.original(op.outputs[b]))) continue;
      const Expr none = constant_of(body->dtype, 0);
      body = select(logical_and(call(Fn::is_nan, {body}), equal(seeds[b], constant_of(seeds[b]->dtype, 0))), none, body);
    }
    Var* term = trimmed_elementwise(graph_, operands, domain, body);
    if (place->args != identity_indices(static_cast<int>(domain.size())) || operand->shape() != domain) {
      // The operand was read at other places than this one: the term is summed into those.
      Op reading;
      reading.inputs = {nullptr};
      reading.inputs.insert(reading.inputs.end(), op.inputs.begin(), op.inputs.end());
      const auto behind_first = [](Expr n, const std::vector<Expr>& indices) { return load(n->id + 1, n->dtype, indices); };
      term = trimmed_reduce(graph_, term, reading, operand->shape(), rewrite_loads(place->args, behind_first));
    }
    add_adjoint(operand, term);
  }
}

void Reverse::reindex(Op& op) {
  if (!is_active(op.inputs[0])) return;
  Var* given = adjoint(op.outputs[0]);
  const auto factored = factor_sum(*given, op);
  if (!factored) return add_adjoint(op.inputs[0], trimmed_reduce(graph_, given, op, op.inputs[0]->shape(), op.indices));
  if (factored->zero) return;
  std::vector<Var*> operands = factored->operands;
  operands.push_back(trimmed_reduce(graph_, trimmed_elementwise(graph_, operands, given->shape(), factored->rest), op,
                                    op.inputs[0]->shape(), op.indices));
  const Expr sum = identity_load(static_cast<int>(operands.size()) - 1, operands.back());
  add_adjoint(op.inputs[0], trimmed_elementwise(graph_, operands, op.inputs[0]->shape(), factored->factor * sum));
}

void Reverse::reindex_reduce(Op& op) {
  if (!is_active(op.inputs[0])) return;
  Var* given = adjoint(op.outputs[0]);
  switch (op.reduce) {
    case Reduce::add:
      return add_adjoint(op.inputs[0], trimmed_reindex(graph_, given, op, op.inputs[0]->shape(), op.indices));
    case Reduce::min:
    case Reduce::max:
      return extremum(op, given);
    case Reduce::mul:
      return product(op, given);
    case Reduce::logical_and:
    case Reduce::logical_or:
      return;
  }
}

void Reverse::extremum(Op& op, Var* given) {
  const Attained who = attained(graph_, op);
  Var* share = map(graph_, Fn::div, given, who.count);
  Var* spread = trimmed_reindex(graph_, share, op, op.inputs[0]->shape(), op.indices);
  add_adjoint(op.inputs[0], map(graph_, Fn::mul, spread, who.mask));
}

void Reverse::product(Op& op, Var* given) {
  Var* spread = trimmed_reindex(graph_, given, op, op.inputs[0]->shape(), op.indices);
  add_adjoint(op.inputs[0], map(graph_, Fn::mul, spread, product_of_others(graph_, op)));
}

Attained attained(Graph& graph, const Op& op) {
  Var *x = op.inputs[0], *y = op.outputs[0];
  Var* best = trimmed_reindex(graph, y, op, x->shape(), op.indices);
  Expr hit = equal(identity_load(0, x), identity_load(1, best));
  Var* mask = graph.elementwise({x, best}, x->shape(), cast(hit, x->dtype()));
  Var* hits = trimmed_reduce(graph, mask, op, y->shape(), op.indices);
  // At least 1: where nothing was reduced (or a NaN won) there is nothing to share.
  Expr at_least_one = max(identity_load(0, hits), constant_of(hits->dtype(), 1));
  return {mask, graph.elementwise({hits}, y->shape(), at_least_one)};
}

// The product over the others by division; where zeros are among the factors, the product of the rest times the other zeros.
// How many zeros a product has decides the formula, so that its derivatives are right as well: with Z the sum of the zero
// factors and Q that of their squares (values 0, derivatives not), the product of two of them is (Z^2 - Q) / 2, and what is
// left of n zeros without x itself is that of Z - x and Q - x^2. Three zeros and more have a derivative of the third order
// at the earliest.
Var* product_of_others(Graph& graph, const Op& op) {
  Var *x = op.inputs[0], *y = op.outputs[0];
  const Expr one = constant_of(x->dtype(), 1), none = constant_of(x->dtype(), 0), value = identity_load(0, x);
  const Expr is_zero = equal(value, none);
  const auto per_element = [&](Expr body) { return graph.elementwise({x}, x->shape(), body); };
  const auto summed = [&](Var* v) {
    return trimmed_reindex(graph, trimmed_reduce(graph, v, op, y->shape(), op.indices), op, x->shape(), op.indices);
  };
  Var* factors = per_element(select(is_zero, one, value));
  std::vector<Expr> indices = op.indices, conditions = op.conditions;
  std::vector<Var*> operands = trim(with_first(factors, op), 1, pointers(indices, conditions));
  Var* product = graph.reindex_reduce(operands, y->shape(), indices, Reduce::mul, conditions, op.accumulator);
  const std::vector<Var*> read = {
      x, trimmed_reindex(graph, product, op, x->shape(), op.indices), summed(per_element(cast(is_zero, x->dtype()))),
      summed(per_element(select(is_zero, value, none))), summed(per_element(select(is_zero, value * value, none)))};
  const Expr rest = identity_load(1, read[1]), count = identity_load(2, read[2]), zeros = identity_load(3, read[3]),
             squares = identity_load(4, read[4]);
  const auto of_two = [&](Expr sum, Expr sum_of_squares) {
    return (sum * sum - sum_of_squares) * constant_of(x->dtype(), 0.5);
  };
  const auto by_count = [&](std::vector<Expr> cases) {  // for 0, 1, ... zeros; else 0
    Expr body = none;
    for (size_t k = cases.size(); k-- > 0;)
      body = select(equal(count, constant_of(x->dtype(), static_cast<double>(k))), cases[k], body);
    return body;
  };
  const Expr of_a_zero =
      by_count({none, rest, rest * (zeros - value), rest * of_two(zeros - value, squares - value * value)});
  const Expr left = rest / select(is_zero, one, value);
  const Expr of_another = by_count({left, left * zeros, left * of_two(zeros, squares)});
  return graph.elementwise(read, x->shape(), select(is_zero, of_a_zero, of_another));
}

// ---- the entry ----
std::vector<Var*> gradient(Graph& graph, const std::vector<Var*>& outputs, const std::vector<Var*>& seeds,
                           const std::vector<Var*>& wrt) {
  METAC_ASSERT(outputs.size() == seeds.size());
  for (const auto* list : {&outputs, &wrt})
    for (const Var* v : *list)
      if (!is_float(v->dtype()))
        fail("a gradient needs floating-point tensors, ", quoted(v->name), " is ", name_of(v->dtype()));
  Reverse reverse(graph, graph.open_ops(), wrt);
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (!seeds[k] && !element_count(outputs[k]->shape()).is_int(1))
      fail("the gradient of a tensor of shape ", to_string(outputs[k]->shape()),
           " needs a seed; only one number can do without");
    reverse.add_adjoint(outputs[k],
                        seeds[k] ? seeds[k] : fill(graph, outputs[k]->shape(), constant_of(outputs[k]->dtype(), 1)));
  }
  reverse.walk();
  std::vector<Var*> out;
  for (Var* v : wrt) {
    Var* sum = reverse.adjoint(v);
    out.push_back(sum ? sum : zeros_like(graph, v));
  }
  return out;
}

}  // namespace metac
