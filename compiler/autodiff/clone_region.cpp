#include "compiler/autodiff/clone_region.h"

#include <algorithm>

namespace metac {

Var* Cloner::operator()(Var* var) const {
  auto found = vars_.find(var);
  return found == vars_.end() ? var : found->second;
}

Expr Cloner::operator()(Expr e) const {
  if (!e || symbols_.empty()) return e;
  return rewrite(e, [&](Expr n) -> Expr {
    if (n->kind != ExprKind::symbol) return {};
    auto found = symbols_.find(n->id);
    return found == symbols_.end() ? Expr() : found->second;
  });
}

std::vector<Expr> Cloner::all(const std::vector<Expr>& es) const {
  std::vector<Expr> out;
  for (Expr e : es) out.push_back((*this)(e));
  return out;
}

int Cloner::fresh_symbol(int id) {
  const Symbol copy = graph_.symbols[id];
  const int fresh = graph_.add_symbol(copy);
  symbols_[id] = symbol(fresh);
  return fresh;
}

void Cloner::clone(const std::vector<Op*>& ops) {
  for (const Op* op : ops) {
    std::vector<int> symbols;
    for (int s : op->symbols) symbols.push_back(fresh_symbol(s));
    std::vector<Region> regions;
    for (const Region& region : op->regions) {
      Region copy;
      if (region.iteration >= 0) copy.iteration = fresh_symbol(region.iteration);
      for (Var* param : region.params) {
        Type type = param->type;
        type.shape = all(type.shape);
        copy.params.push_back(graph_.make_var(type, param->name));
        vars_[param] = copy.params.back();
      }
      graph_.open_region(&copy);
      clone(region.ops);
      graph_.close_region();
      for (Var* result : region.results) copy.results.push_back((*this)(result));
      regions.push_back(std::move(copy));
    }
    std::vector<Var*> inputs;
    for (Var* v : op->inputs) inputs.push_back((*this)(v));
    std::vector<Type> types;
    for (const Var* v : op->outputs) types.push_back({v->type.kind, v->type.dtype, all(v->type.shape)});
    Op* copy = graph_.make_op(op->kind, std::move(inputs), std::move(types));
    copy->origin = op->origin;
    copy->bodies = all(op->bodies);
    copy->indices = all(op->indices);
    copy->conditions = all(op->conditions);
    copy->fill = (*this)(op->fill);
    copy->reduce = op->reduce;
    copy->accumulator = op->accumulator;
    copy->copied_for = op->copied_for;
    copy->routine = op->routine;
    copy->attributes = op->attributes;
    copy->source = op->source;
    copy->symbols = std::move(symbols);
    copy->element = op->element;
    copy->regions = std::move(regions);
    for (size_t k = 0; k < op->outputs.size(); ++k) {
      const Var* from = op->outputs[k];
      Var* to = copy->outputs[k];
      to->name = from->name;
      to->stop_grad = from->stop_grad;
      to->stop_fuse = from->stop_fuse;
      if (from->carried_elements()) to->carry_elements(all(*from->carried_elements()), {op->outputs[k]});
      vars_[from] = to;
    }
  }
}

}  // namespace metac
