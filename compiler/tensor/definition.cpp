#include "compiler/tensor/definition.h"

#include <algorithm>
#include <iterator>

#include "compiler/ir/reads.h"
#include "compiler/ir/walks.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tensor/invert_scatter.h"

namespace metac {

Expr all_of(const std::vector<Expr>& conditions) {
  Expr all = bool_constant(true);
  for (Expr c : conditions) all = logical_and(all, c);
  return all;
}

namespace {

Expr name_operands(Expr e, const std::vector<Var*>& operands) {
  return rewrite_loads(
      e, [&](Expr n, const std::vector<Expr>& indices) { return load(operands[n->id]->id, n->dtype, indices); });
}

Definition reduction(const Op* op) {
  Definition d;
  Var *in = op->inputs[0], *out = op->outputs[0];
  d.out = out;
  d.reduce = op->reduce;
  d.accumulator = op->accumulator;
  std::vector<Expr> conditions;
  for (Expr c : op->conditions) conditions.push_back(name_operands(c, op->inputs));
  // A projection keeps some axes of the input, each once, and has 0 where the output's dim is 1.
  std::vector<int> kept;
  bool projection = true;
  for (int k = 0; k < out->rank() && projection; ++k) {
    Expr e = op->indices[k];
    if (e->kind == ExprKind::axis && !std::count(kept.begin(), kept.end(), e->id) && in->shape()[e->id] == out->shape()[k])
      kept.push_back(e->id);
    else
      projection = e.is_int(0) && out->shape()[k].is_int(1);
  }
  std::vector<int> position(in->rank(), -1);
  for (size_t k = 0; k < kept.size(); ++k) {
    position[kept[k]] = static_cast<int>(k);
    d.domain.push_back(in->shape()[kept[k]]);
  }
  if (!projection) {
    d.scatter = true;
    d.domain = in->shape();
    d.body = cast(load(in->id, in->dtype(), identity_indices(in->rank())), d.accumulator);
    d.conditions = conditions;
    for (Expr e : op->indices) d.out_index.push_back(name_operands(e, op->inputs));
    d.epilogue = cast(load(reduced_value, d.accumulator, {}), out->dtype());
    return d;
  }
  for (int k = 0; k < in->rank(); ++k) {
    if (position[k] >= 0) continue;
    position[k] = static_cast<int>(d.domain.size());
    d.domain.push_back(in->shape()[k]);
    ++d.reduced;
  }
  std::vector<Expr> renamed;
  for (int p : position) renamed.push_back(axis(p));
  d.body = cast(load(in->id, in->dtype(), renamed), d.accumulator);
  if (!conditions.empty())
    d.body = select(substitute_axes(all_of(conditions), renamed), d.body, identity_of(op->reduce, d.accumulator));
  int next = 0;
  for (int k = 0; k < out->rank(); ++k)
    d.out_index.push_back(op->indices[k]->kind == ExprKind::axis ? axis(next++) : Expr(0));
  d.epilogue = cast(load(reduced_value, d.accumulator, {}), out->dtype());
  return d;
}

}  // namespace

std::vector<Definition> definitions_of(const Op* op, const std::vector<Symbol>& symbols) {
  std::vector<Definition> out;
  if (op->kind == OpKind::elementwise) {
    for (size_t k = 0; k < op->outputs.size(); ++k) {
      Definition d;
      d.out = op->outputs[k];
      d.domain = d.out->shape();
      d.body = name_operands(op->bodies[k], op->inputs);
      d.out_index = identity_indices(d.out->rank());
      out.push_back(std::move(d));
    }
  } else if (op->kind == OpKind::reindex) {
    Definition d;
    d.out = op->outputs[0];
    d.domain = d.out->shape();
    std::vector<Expr> indices, conditions;
    for (Expr e : op->indices) indices.push_back(name_operands(e, op->inputs));
    for (Expr c : op->conditions) conditions.push_back(name_operands(c, op->inputs));
    d.body = select(all_of(conditions), load(op->inputs[0]->id, d.out->dtype(), indices), op->fill);
    d.out_index = identity_indices(d.out->rank());
    out.push_back(std::move(d));
  } else {
    METAC_ASSERT(op->kind == OpKind::reindex_reduce);
    out.push_back(reduction(op));
  }
  for (Definition& d : out) {
    if (op->origin.node >= 0) d.nodes = {op->origin.node};
    d.int8_data = op->origin.int8_data && d.reduce;
    simplify(d, symbols);
    invert_scatter(d, symbols);
  }
  return out;
}

static void visit_loads_of(Expr e, const std::function<void(Expr)>& f, NodeSet& seen) {
  if (!e->has_load || !seen.insert(e.node(), {})) return;
  for (Expr a : e->args) visit_loads_of(a, f, seen);
  if (e->kind == ExprKind::load && e->id != reduced_value) f(e);
}

void merge_nodes(std::vector<int>& nodes, const std::vector<int>& more) {
  if (nodes.empty() || more.empty() || nodes.back() < more.front()) {
    nodes.insert(nodes.end(), more.begin(), more.end());
  } else if (!std::includes(nodes.begin(), nodes.end(), more.begin(), more.end())) {
    std::vector<int> all;
    std::set_union(nodes.begin(), nodes.end(), more.begin(), more.end(), std::back_inserter(all));
    nodes = std::move(all);
  }
}

Definition copy_of(const Var* source, Var* out, std::vector<int> nodes) {
  Definition copy;
  copy.out = out;
  copy.domain = out->shape();
  copy.out_index = identity_indices(out->rank());
  copy.body = load(source->id, source->dtype(), copy.out_index);
  copy.nodes = std::move(nodes);
  return copy;
}

void visit_loads(const Definition& d, const std::function<void(Expr)>& f) {
  NodeSet seen;
  visit_loads_of(d.body, f, seen);
  if (d.epilogue) visit_loads_of(d.epilogue, f, seen);
  for (Expr e : d.conditions) visit_loads_of(e, f, seen);
  for (Expr e : d.out_index) visit_loads_of(e, f, seen);
}

void visit_symbols(const Definition& d, const std::function<void(int)>& f) {
  for (Expr e : {d.body, d.epilogue}) visit_symbols(e, f);
  for (const auto* list : {&d.conditions, &d.out_index, &d.domain, &d.out->shape()})
    for (Expr e : *list) visit_symbols(e, f);
}

static Expr replace(Expr e, int id, const std::function<Expr(const std::vector<Expr>&)>& value) {
  return rewrite_loads(e, [&](Expr n, const std::vector<Expr>& indices) { return n->id == id ? value(indices) : Expr(); });
}

void replace_loads(Definition& d, int id, const std::function<Expr(const std::vector<Expr>&)>& value) {
  d.body = replace(d.body, id, value);
  if (d.epilogue) d.epilogue = replace(d.epilogue, id, value);
  for (Expr& e : d.conditions) e = replace(e, id, value);
  for (Expr& e : d.out_index) e = replace(e, id, value);
}

void permute_axes(Definition& d, const std::vector<int>& position) {
  Shape domain(d.domain.size());
  std::vector<Expr> renamed;
  for (size_t k = 0; k < position.size(); ++k) {
    domain[position[k]] = d.domain[k];
    renamed.push_back(axis(position[k]));
  }
  d.domain = domain;
  d.body = substitute_axes(d.body, renamed);
  if (d.epilogue) d.epilogue = substitute_axes(d.epilogue, renamed);
  for (Expr& e : d.conditions) e = substitute_axes(e, renamed);
  for (Expr& e : d.out_index) e = substitute_axes(e, renamed);
}

static void simplify(Definition& d, const Bounds& bounds, Simplified& known) {
  std::vector<Expr> scalars = simplify({d.body, d.epilogue}, bounds, known);
  d.body = scalars[0];
  d.epilogue = scalars[1];
  d.conditions = simplify(d.conditions, bounds, known);
  d.out_index = simplify(d.out_index, bounds, known);
}

void simplify(Definition& d, const std::vector<Symbol>& symbols) {
  Simplified known;
  simplify(d, Bounds(symbols, d.domain), known);
}

void DefinitionSimplifier::operator()(Definition& d) {
  std::vector<const ExprNode*> domain;
  for (Expr extent : d.domain) domain.push_back(extent.node());
  auto found = by_domain_.try_emplace(domain, Bounds(symbols_, d.domain), Simplified{}).first;
  simplify(d, found->second.first, found->second.second);
}

bool is_reshape(const Shape& in, const Shape& out, const std::vector<Expr>& indices, const std::vector<Symbol>& symbols) {
  for (Expr e : indices)
    if (e->has_load) return false;
  if (element_count(in) != element_count(out)) return false;
  Bounds bounds(symbols, out);
  Expr here = linear_index(out, identity_indices(static_cast<int>(out.size())));
  // Row-major order is kept if the k-th index is the k-th digit of the position; compare digit by digit.
  std::vector<Expr> digits = simplify(unravel_index(in, here), bounds);
  if (simplify(linear_index(in, indices), bounds) == simplify(here, bounds)) return true;
  for (size_t k = 0; k < in.size(); ++k)
    if (digits[k] != simplify(indices[k], bounds) && !in[k].is_int(1)) return false;
  return true;
}

bool is_permutation(const std::vector<Expr>& indices, std::vector<int>* axes) {
  std::vector<int> found;
  for (Expr e : indices) {
    if (e->kind != ExprKind::axis || std::count(found.begin(), found.end(), e->id)) return false;
    found.push_back(e->id);
  }
  if (axes) *axes = found;
  return true;
}

std::string to_string(const Definition& d) {
  std::string out = concat("v", d.out->id, "[");
  for (size_t k = 0; k < d.out_index.size(); ++k) out += (k ? ", " : "") + to_string(d.out_index[k]);
  out += d.scatter ? "] (+)= " : "] = ";
  std::string body = to_string(d.body);
  if (d.reduce) body = concat(name_of(*d.reduce), " over ", d.reduced, " of ", body);
  out += body;
  if (d.epilogue) out += " then " + to_string(d.epilogue);
  return out + " for " + to_string(d.domain);
}

}  // namespace metac
