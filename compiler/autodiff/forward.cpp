// Forward mode: one walk in the order of the ops, tangents beside values.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "compiler/autodiff/clone_region.h"
#include "compiler/autodiff/code_rules.h"
#include "compiler/autodiff/external_rules.h"
#include "compiler/autodiff/given_rules.h"
#include "compiler/autodiff/gradient.h"
#include "compiler/autodiff/reverse.h"
#include "compiler/autodiff/scalar_rules.h"
#include "compiler/ir/builders.h"
#include "compiler/ir/reads.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

class Forward {
 public:
  explicit Forward(Graph& graph) : graph_(graph) {}
  void set(const Var* var, Var* tangent) { tangents_[var] = tangent; }
  Var* tangent(const Var* var) const {
    auto found = tangents_.find(var);
    return found == tangents_.end() ? nullptr : found->second;
  }
  Var* tangent_or_zeros(Var* var) { return tangent(var) ? tangent(var) : zeros_like(graph_, var); }

  void walk(const std::vector<Op*>& ops) {
    for (Op* op : ops) {
      const std::vector<Var*> read = reads_of(*op).vars;
      if (std::none_of(read.begin(), read.end(), [&](const Var* v) { return tangent(v) != nullptr; })) continue;
      const Origin before = graph_.origin();
      graph_.set_origin(op->origin);
      visit(*op);
      graph_.set_origin(before);
    }
  }

 private:
  void put(const Var* out, Var* tangent) {
    if (tangent && is_float(out->dtype()) && !out->stop_grad && !tangents_.contains(out)) tangents_[out] = tangent;
  }

  void visit(Op& op) {
    switch (op.kind) {
      case OpKind::elementwise:
        return elementwise(op);
      case OpKind::reindex:
        if (Var* t = tangent(op.inputs[0]))
          put(op.outputs[0], trimmed_reindex(graph_, t, op, op.outputs[0]->shape(), op.indices));
        return;
      case OpKind::reindex_reduce:
        return reindex_reduce(op);
      case OpKind::if_:
        return if_(op);
      case OpKind::loop:
        return loop(op);
      case OpKind::bind:
        return;
      case OpKind::code: {
        std::vector<Var*> given;
        for (const Var* v : op.inputs) given.push_back(tangent(v));
        return put(op.outputs[0], code_tangent(graph_, op, given));
      }
      case OpKind::external: {
        const ExternalGradient* rule = find_external_gradient(op.routine);
        if (!rule) fail("the routine ", op.routine, " has no derivative");
        std::vector<Var*> given;
        for (const Var* v : op.inputs) given.push_back(tangent(v));
        const std::vector<Var*> results = rule->forward(graph_, op, given);
        for (size_t k = 0; k < results.size(); ++k) put(op.outputs[k], results[k]);
      }
    }
  }

  void elementwise(Op& op) {
    if (const std::optional<GivenGradient> given = given_gradient_of(op)) {
      std::vector<Var*> operands = op.inputs;
      const Expr body = given_tangent(op, *given, [&](size_t k) -> Expr {
        Var* t = tangent(op.inputs[k]);
        if (!t) return {};
        operands.push_back(t);
        return load(static_cast<int>(operands.size()) - 1, t->dtype(), identity_indices(t->rank()));
      });
      if (body) put(op.outputs[0], trimmed_elementwise(graph_, operands, op.outputs[0]->shape(), body));
      return;
    }
    for (size_t b = 0; b < op.bodies.size(); ++b) {
      std::vector<Var*> operands = op.inputs;
      Expr body = tangent_of(op.bodies[b], [&](Expr place) -> Expr {
        Var* t = tangent(op.inputs[place->id]);
        if (!t) return {};
        operands.push_back(t);
        return load(static_cast<int>(operands.size()) - 1, t->dtype(), place->args);
      });
      if (body) put(op.outputs[b], trimmed_elementwise(graph_, operands, op.outputs[b]->shape(), body));
    }
  }

  // Is the element the same along an axis that has several?
  static bool leaves_an_axis_out(const std::vector<Expr>& indices, const Shape& shape) {
    for (size_t k = 0; k < shape.size(); ++k)
      if (!shape[k].is_int(1) && std::none_of(indices.begin(), indices.end(), [&](Expr e) {
            return any_of(e, [&](Expr x) { return x == axis(static_cast<int>(k)); });
          }))
        return true;
    return false;
  }
  static bool repeats(const Var* var, const Shape& shape) {
    return var->producer && var->producer->kind == OpKind::reindex && leaves_an_axis_out(var->producer->indices, shape);
  }

  // The tangent of a product whose factors are spread over the axes of a sum (a contraction) is two such products. Summed
  // apart, each is a contraction again; summed together they are none.
  std::vector<Var*> products_apart(Var* tangent) {
    const Op* made = tangent->producer;
    if (!made || made->kind != OpKind::elementwise || made->bodies.size() != 1) return {tangent};
    const Expr body = made->bodies[0];
    if (body->kind != ExprKind::call || body->fn != Fn::add) return {tangent};
    std::vector<Var*> parts;
    for (Expr term : body->args) {
      bool spread = false;
      metac::visit(term, [&](Expr n) {
        if (n->kind == ExprKind::load)
          spread |= leaves_an_axis_out(n->args, tangent->shape()) || repeats(made->inputs[n->id], tangent->shape());
      });
      if (!spread || term->kind != ExprKind::call || term->fn != Fn::mul) return {tangent};
      parts.push_back(trimmed_elementwise(graph_, made->inputs, tangent->shape(), term));
    }
    return parts;
  }

  void reindex_reduce(Op& op) {
    Var* t = tangent(op.inputs[0]);
    if (!t) return;
    const Shape& shape = op.outputs[0]->shape();
    if (op.reduce == Reduce::add) {
      std::vector<Var*> sums;
      for (Var* part : products_apart(t)) sums.push_back(trimmed_reduce(graph_, part, op, shape, op.indices));
      put(op.outputs[0], sum_of(graph_, sums));
    } else if (op.reduce == Reduce::mul) {
      Var* each = map(graph_, Fn::mul, t, product_of_others(graph_, op));
      put(op.outputs[0], trimmed_reduce(graph_, each, op, shape, op.indices));
    } else if (op.reduce == Reduce::min || op.reduce == Reduce::max) {
      const Attained who = attained(graph_, op);
      Var* sum = trimmed_reduce(graph_, map(graph_, Fn::mul, t, who.mask), op, shape, op.indices);
      put(op.outputs[0], map(graph_, Fn::div, sum, who.count));
    }
  }

  // Inside of a region: computes its ops again and their tangents beside them.
  void if_(Op& op) {
    std::vector<size_t> real;
    for (size_t k = 0; k < op.outputs.size(); ++k)
      if (is_float(op.outputs[k]->dtype())) real.push_back(k);
    if (real.empty()) return;
    std::vector<Region> branches(2);
    for (size_t b = 0; b < 2; ++b) {
      graph_.open_region(&branches[b]);
      Cloner copy(graph_);
      copy.clone(op.regions[b].ops);
      Forward inner(*this);
      inner.walk(std::vector<Op*>(graph_.open_ops()));
      for (size_t k : real) branches[b].results.push_back(inner.tangent_or_zeros(copy(op.regions[b].results[k])));
      graph_.close_region();
    }
    Op* result = graph_.if_(op.inputs[0], std::move(branches[0]), std::move(branches[1]));
    for (size_t r = 0; r < real.size(); ++r) put(op.outputs[real[r]], result->outputs[r]);
  }

  void loop(Op& op) {
    const Region& body = op.regions[0];
    const size_t carried = body.params.size(), stacked = op.outputs.size() - carried;
    std::vector<Var*> initial(op.inputs.begin() + 2, op.inputs.end());
    Region both;
    both.iteration = graph_.add_symbol({.name = "iteration"});
    std::vector<size_t> real, real_rows;
    for (const Var* param : body.params) both.params.push_back(graph_.make_var(param->type));
    for (size_t k = 0; k < carried; ++k) {
      if (!is_float(body.params[k]->dtype())) continue;
      real.push_back(k);
      initial.push_back(tangent_or_zeros(op.inputs[2 + k]));
      both.params.push_back(graph_.make_var(body.params[k]->type));
    }
    for (size_t k = 0; k < stacked; ++k)
      if (is_float(op.outputs[carried + k]->dtype())) real_rows.push_back(k);
    graph_.open_region(&both);
    Cloner copy(graph_);
    if (body.iteration >= 0) copy.map_symbol(body.iteration, symbol(both.iteration));
    Forward inner(*this);
    for (size_t k = 0; k < carried; ++k) copy.map_var(body.params[k], both.params[k]);
    for (size_t r = 0; r < real.size(); ++r) inner.set(both.params[real[r]], both.params[carried + r]);
    copy.clone(body.ops);
    inner.walk(std::vector<Op*>(graph_.open_ops()));
    both.results = {copy(body.results[0])};
    for (size_t k = 0; k < carried; ++k) both.results.push_back(copy(body.results[1 + k]));
    for (size_t k : real) both.results.push_back(inner.tangent_or_zeros(copy(body.results[1 + k])));
    for (size_t k : real_rows) both.results.push_back(inner.tangent_or_zeros(copy(body.results[1 + carried + k])));
    graph_.close_region();
    Op* result = graph_.loop(op.inputs[0], op.inputs[1], initial, std::move(both));
    for (size_t r = 0; r < real.size(); ++r) put(op.outputs[real[r]], result->outputs[carried + r]);
    for (size_t r = 0; r < real_rows.size(); ++r)
      put(op.outputs[carried + real_rows[r]], result->outputs[carried + real.size() + r]);
  }

  Graph& graph_;
  std::unordered_map<const Var*, Var*> tangents_;
};

// Those that `outputs` depend on, in order: what else stands in the graph needs no derivative and may have none.
std::vector<Op*> ops_before(const std::vector<Op*>& ops, const std::vector<Var*>& outputs) {
  std::unordered_set<const Var*> wanted(outputs.begin(), outputs.end());
  std::vector<Op*> before;
  for (size_t k = ops.size(); k-- > 0;) {
    Op* op = ops[k];
    if (std::none_of(op->outputs.begin(), op->outputs.end(), [&](const Var* v) { return wanted.contains(v); })) continue;
    before.push_back(op);
    for (const Var* v : reads_of(*op).vars) wanted.insert(v);
  }
  std::reverse(before.begin(), before.end());
  return before;
}

}  // namespace

std::vector<Var*> jvp(Graph& graph, const std::vector<Var*>& outputs, const std::vector<Var*>& wrt,
                      const std::vector<Var*>& tangents) {
  METAC_ASSERT(wrt.size() == tangents.size());
  for (const auto* list : {&outputs, &wrt})
    for (const Var* v : *list)
      if (!is_float(v->dtype()))
        fail("a derivative needs floating-point tensors, ", quoted(v->name), " is ", name_of(v->dtype()));
  Forward forward(graph);
  for (size_t k = 0; k < wrt.size(); ++k) forward.set(wrt[k], tangents[k]);
  forward.walk(ops_before(graph.open_ops(), outputs));
  std::vector<Var*> out;
  for (Var* v : outputs) out.push_back(forward.tangent_or_zeros(v));
  return out;
}

}  // namespace metac
