// The meta-operator program as text, and the verifier.
#include <sstream>

#include "compiler/ir/graph.h"
#include "compiler/ir/reads.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

std::string name_of(const Var* var) { return var ? "v" + std::to_string(var->id) : "-"; }

std::string list(const std::vector<Expr>& es) {
  std::string out;
  for (size_t i = 0; i < es.size(); ++i) out += (i ? ", " : "") + to_string(es[i]);
  return out;
}

std::string list(const std::vector<Var*>& vars) {
  std::string out;
  for (size_t i = 0; i < vars.size(); ++i) out += (i ? ", " : "") + name_of(vars[i]);
  return out;
}

std::string type_text(const Var* var) { return std::string(metac::name_of(var->dtype())) + to_string(var->shape()); }

void print(std::ostream& out, const std::vector<Op*>& ops, int depth) {
  for (const Op* op : ops) {
    out << std::string(2 * depth, ' ');
    for (size_t k = 0; k < op->outputs.size(); ++k)
      out << (k ? ", " : "") << name_of(op->outputs[k]) << ": " << type_text(op->outputs[k]);
    out << (op->outputs.empty() ? "" : " = ") << metac::name_of(op->kind);
    if (op->kind == OpKind::reindex_reduce) out << "." << metac::name_of(op->reduce);
    if (!op->routine.empty()) out << " " << op->routine;
    out << "(" << list(op->inputs) << ")";
    if (!op->bodies.empty()) out << " { " << list(op->bodies) << " }";
    if (op->kind == OpKind::reindex || op->kind == OpKind::reindex_reduce) out << " [" << list(op->indices) << "]";
    if (!op->conditions.empty()) out << " if " << list(op->conditions);
    if (op->kind == OpKind::reindex && !op->conditions.empty()) out << " else " << to_string(op->fill);
    for (size_t k = 0; k < op->symbols.size(); ++k) out << (k ? ", n" : " binds n") << op->symbols[k];
    if (op->origin.node >= 0) out << "  # node " << op->origin.node << " " << op->origin.op_type;
    out << "\n";
    for (const Region& region : op->regions) {
      out << std::string(2 * depth + 2, ' ') << "region(" << list(region.params) << ")";
      if (region.iteration >= 0) out << " iteration n" << region.iteration;
      out << "\n";
      print(out, region.ops, depth + 2);
      out << std::string(2 * depth + 2, ' ') << "yield " << list(region.results) << "\n";
    }
  }
}

void verify_ops(const std::vector<Op*>& ops) {
  for (const Op* op : ops) {
    for (const Var* in : op->inputs) METAC_ASSERT(in || op->kind == OpKind::loop, "op ", op->id, " has no input");
    if (op->kind == OpKind::elementwise) METAC_ASSERT(op->bodies.size() == op->outputs.size());
    if (op->kind == OpKind::reindex) METAC_ASSERT(static_cast<int>(op->indices.size()) == op->inputs[0]->rank());
    if (op->kind == OpKind::reindex_reduce) METAC_ASSERT(static_cast<int>(op->indices.size()) == op->outputs[0]->rank());
    for (Expr body : op->bodies)
      visit(body, [&](Expr n) {
        if (n->kind != ExprKind::load) return;
        METAC_ASSERT(n->id < static_cast<int>(op->inputs.size()));
        METAC_ASSERT(static_cast<int>(n->args.size()) == op->inputs[n->id]->rank() && n->dtype == op->inputs[n->id]->dtype(),
                     to_string(n));
      });
    for (const Var* var : op->outputs) METAC_ASSERT(var->producer == op);
    for (const Region& region : op->regions) verify_ops(region.ops);
  }
}

}  // namespace

std::string to_string(const Graph& graph) {
  std::ostringstream out;
  for (size_t k = 0; k < graph.symbols.size(); ++k) {
    const Symbol& s = graph.symbols[k];
    out << "symbol n" << k << " " << quoted(s.name) << " in [" << s.min << ", " << s.max << "]\n";
  }
  for (const Var* var : graph.inputs)
    out << "input " << name_of(var) << ": " << type_text(var) << " " << quoted(var->name) << "\n";
  print(out, graph.ops, 0);
  for (const Requirement& r : graph.requirements) out << "require " << to_string(r.condition) << "\n";
  out << "output " << list(graph.outputs) << "\n";
  return out.str();
}

void verify(const Graph& graph) {
  verify_ops(graph.ops);
  verify_order(graph);
}

}  // namespace metac
