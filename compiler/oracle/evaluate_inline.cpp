#include "compiler/oracle/evaluate_inline.h"

#include <set>

#include "compiler/support/checked.h"

namespace metac {

bool SymbolValues::is_known(Expr e) const {
  return !any_of(e, [&](Expr n) { return n->kind == ExprKind::symbol && !bound[n->id]; });
}

int64_t SymbolValues::dim(Expr e) const {
  METAC_ASSERT(is_known(e), "the dim ", to_string(e), " depends on a symbol that is not bound");
  return evaluate_dim(e, values.data());
}

std::vector<int64_t> SymbolValues::dims(const Shape& shape) const {
  std::vector<int64_t> out;
  for (Expr d : shape) out.push_back(dim(d));
  return out;
}

size_t node_count(Expr e) {
  size_t count = 0;
  visit(e, [&](Expr) { ++count; });
  return count;
}

int64_t count_of(const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (int64_t d : dims) {
    auto product = checked_mul(count, d);
    if (d < 0 || !product) fail("a tensor of shape ", to_string(dims), " is too large");
    count = *product;
  }
  return count;
}

// ---- which ops are inlined ----
CompiledGraph::CompiledGraph(const Graph& graph) {
  std::unordered_map<const Var*, int> region_of;
  int regions = 0;
  count_uses(graph.ops, region_of, regions);
  for (const Var* v : graph.outputs) only_consumer_[v] = nullptr;
}

void CompiledGraph::count_uses(const std::vector<Op*>& ops, std::unordered_map<const Var*, int>& region_of, int& regions) {
  const int here = regions++;
  for (const Op* op : ops) {
    for (const Var* v : op->outputs) region_of[v] = here;
    for (const Var* v : std::set<const Var*>(op->inputs.begin(), op->inputs.end())) {
      if (!v) continue;
      const bool first = !only_consumer_.contains(v), same_region = region_of.contains(v) && region_of.at(v) == here;
      only_consumer_[v] = first && same_region && is_meta(op->kind) ? op : nullptr;
    }
    for (const Region& region : op->regions) {
      count_uses(region.ops, region_of, regions);
      for (const Var* v : region.results)
        if (v) only_consumer_[v] = nullptr;
    }
  }
}

bool CompiledGraph::is_inlined(const Op& op, const SymbolValues& symbols) {
  auto found = inlined_.find(&op);
  if (found == inlined_.end()) found = inlined_.emplace(&op, decide_inlined(op, symbols)).first;
  return found->second;
}

// Not where it would repeat real work (an exp per element of a broadcast) or pile up expressions.
bool CompiledGraph::decide_inlined(const Op& op, const SymbolValues& symbols) {
  if (op.kind == OpKind::reindex_reduce || op.outputs.size() != 1 || op.outputs[0]->dtype() == DType::string) return false;
  const Var* out = op.outputs[0];
  auto found = only_consumer_.find(out);
  const Op* consumer = found == only_consumer_.end() ? nullptr : found->second;
  if (!consumer) return false;
  for (Expr d : domain_of(*consumer))
    if (!symbols.is_known(d)) return false;
  int loads = consumer->kind != OpKind::elementwise && consumer->inputs[0] == out ? 1 : 0;
  for (const auto* list : {&consumer->bodies, &consumer->indices, &consumer->conditions})
    for (Expr e : *list) visit(e, [&](Expr n) { loads += n->kind == ExprKind::load && consumer->inputs[n->id] == out; });
  if (loads != 1) return false;
  Expr body = lazy_body(op);
  if (node_count(body) > 250) return false;
  if (op.kind == OpKind::elementwise && node_count(op.bodies[0]) > 8 &&
      count_of(symbols.dims(domain_of(*consumer))) > count_of(symbols.dims(out->shape())))
    return false;
  lazy_[out] = body;
  return true;
}

// ---- expressions with inlined Vars expanded and loads by Var id ----
Expr CompiledGraph::expand(const Op& op, Expr e, std::unordered_map<const ExprNode*, Expr>& done) {
  if (auto found = done.find(e.node()); found != done.end()) return found->second;
  Expr result = e;
  if (!e->args.empty() || e->kind == ExprKind::load) {
    std::vector<Expr> args;
    for (Expr a : e->args) args.push_back(expand(op, a, done));
    if (e->kind == ExprKind::call)
      result = call(e->fn, std::move(args));
    else if (e->kind == ExprKind::cast)
      result = cast(args[0], e->dtype);
    else
      result = load_of(op.inputs[e->id], std::move(args));
  }
  done.emplace(e.node(), result);
  return result;
}

Expr CompiledGraph::expand(const Op& op, Expr e) {
  std::unordered_map<const ExprNode*, Expr> done;
  return expand(op, e, done);
}

Expr CompiledGraph::load_of(const Var* var, std::vector<Expr> indices) {
  if (auto lazy = lazy_.find(var); lazy != lazy_.end()) return substitute_axes(lazy->second, indices);
  var_of_id_[var->id] = var;
  return load(var->id, var->dtype(), std::move(indices));
}

Expr CompiledGraph::condition_of(const Op& op) {
  Expr all = bool_constant(true);
  for (Expr c : op.conditions) all = logical_and(all, expand(op, c));
  return all;
}

Expr CompiledGraph::lazy_body(const Op& op, size_t output) {
  if (op.kind == OpKind::elementwise) return expand(op, op.bodies[output]);
  std::vector<Expr> indices;
  for (Expr e : op.indices) indices.push_back(expand(op, e));
  return select(condition_of(op), load_of(op.inputs[0], std::move(indices)), expand(op, op.fill));
}

// ---- programs ----
const CompiledGraph::Kernel& CompiledGraph::kernel(const Op& op) {
  auto found = kernels_.find(&op);
  if (found == kernels_.end()) found = kernels_.emplace(&op, compile(op)).first;
  return found->second;
}

CompiledGraph::Kernel CompiledGraph::compile(const Op& op) {
  std::vector<Expr> roots;
  if (op.kind == OpKind::reindex_reduce || op.outputs[0]->dtype() == DType::string) {
    if (op.kind == OpKind::reindex_reduce) roots.push_back(load_of(op.inputs[0], identity_indices(op.inputs[0]->rank())));
    roots.push_back(condition_of(op));
    for (Expr e : op.indices) roots.push_back(expand(op, e));
  } else {
    for (size_t k = 0; k < op.outputs.size(); ++k) roots.push_back(lazy_body(op, k));
  }
  Kernel kernel{compile_scalars(roots), {}};
  for (const ScalarProgram::Row& row : kernel.program.rows)
    if (row.node->kind == ExprKind::load) kernel.operands.push_back(var_of_id_.at(row.node->id));
  return kernel;
}

}  // namespace metac
