#include "compiler/ir/reads.h"

#include <algorithm>
#include <set>

#include "compiler/support/diagnostic.h"

namespace metac {

void visit_symbols(Expr e, const std::function<void(int)>& f) {
  if (!e || e.is_constant()) return;
  visit(e, [&](Expr n) {
    if (n->kind == ExprKind::symbol) f(n->id);
  });
}

bool has_symbol(Expr e) {
  return bool(e) && !e.is_constant() && any_of(e, [](Expr n) { return n->kind == ExprKind::symbol; });
}

namespace {

class Collector {
 public:
  // Its own expressions and operands: what its regions read comes from them.
  void own(const Op& op) {
    for (Var* in : op.inputs) var(in);
    for (const auto* list : {&op.bodies, &op.indices, &op.conditions})
      for (Expr e : *list) expression(e);
    expression(op.fill);
    for (Var* out : op.outputs) shape(out);
  }

  void all(const Op& op) {
    own(op);
    for (const Region& r : op.regions) region(r);
    made_symbols_.insert(op.symbols.begin(), op.symbols.end());
    made_.insert(op.outputs.begin(), op.outputs.end());
  }

  void region(const Region& r) {
    made_.insert(r.params.begin(), r.params.end());
    made_symbols_.insert(r.iteration);
    for (const Var* param : r.params) shape(param);
    for (const Op* op : r.ops) all(*op);
    for (Var* result : r.results) var(result);
  }

  Reads take() const {
    Reads reads;
    std::set_difference(symbols_.begin(), symbols_.end(), made_symbols_.begin(), made_symbols_.end(),
                        std::back_inserter(reads.symbols));
    for (Var* v : vars_)
      if (!made_.contains(v)) reads.vars.push_back(v);
    return reads;
  }

 private:
  struct ById {
    bool operator()(const Var* a, const Var* b) const { return a->id < b->id; }
  };

  void expression(Expr e) {
    visit_symbols(e, [this](int id) { symbols_.insert(id); });
  }
  void shape(const Var* v) {
    for (Expr d : v->shape()) expression(d);
  }
  void var(Var* v) {
    if (v && vars_.insert(v).second) shape(v);
  }

  std::set<Var*, ById> vars_;
  std::set<const Var*> made_;
  std::set<int> symbols_, made_symbols_;
};

// The Vars and symbols that have their values, in the scope where the walk is.
class OrderVerifier {
 public:
  explicit OrderVerifier(const Graph& graph) : made_(graph.vars().size()), bound_(graph.symbols.size()) {
    for (size_t k = 0; k < graph.symbols.size(); ++k) bound_[k] = graph.symbols[k].from_input;
    for (const auto& v : graph.vars()) made_[static_cast<size_t>(v->id)] = v->is_input || v->constant.has_value();
    ops(graph.ops);
    for (const Var* out : graph.outputs) {
      METAC_ASSERT(made_[static_cast<size_t>(out->id)], "output v", out->id, " is made by no op");
      for (Expr d : out->shape())
        visit_symbols(d, [&](int id) {
          METAC_ASSERT(bound_[static_cast<size_t>(id)], "the shape of output v", out->id, " has n", id,
                       ", which nothing binds");
        });
    }
  }

 private:
  void ops(const std::vector<Op*>& list) {
    for (const Op* op : list) {
      Collector own;
      own.own(*op);
      const Reads reads = own.take();
      const auto is_own = [&](int id) { return std::find(op->symbols.begin(), op->symbols.end(), id) != op->symbols.end(); };
      for (const Var* v : reads.vars)
        METAC_ASSERT(made_[static_cast<size_t>(v->id)], "op ", op->id, " (", name_of(op->kind), ") reads v", v->id,
                     " before it is made");
      for (int id : reads.symbols)
        METAC_ASSERT(bound_[static_cast<size_t>(id)] || is_own(id), "op ", op->id, " (", name_of(op->kind), ") reads n", id,
                     " before it is bound");
      for (const Region& r : op->regions) region(*op, r);
      for (int id : op->symbols) bound_[static_cast<size_t>(id)] = true;
      for (const Var* out : op->outputs) made_[static_cast<size_t>(out->id)] = true;
    }
  }

  // What is made inside is not seen outside.
  void region(const Op& op, const Region& r) {
    const std::vector<bool> made = made_, bound = bound_;
    if (r.iteration >= 0) bound_[static_cast<size_t>(r.iteration)] = true;
    for (const Var* param : r.params) {
      made_[static_cast<size_t>(param->id)] = true;
      for (Expr d : param->shape())  // dims that iterations change
        visit_symbols(d, [&](int id) {
          const bool moves = std::find(op.symbols.begin(), op.symbols.end(), id) != op.symbols.end();
          METAC_ASSERT(bound_[static_cast<size_t>(id)] || moves, "the shape of parameter v", param->id, " has n", id,
                       ", which nothing binds");
          bound_[static_cast<size_t>(id)] = true;
        });
    }
    ops(r.ops);
    for (const Var* result : r.results) {
      if (!result) continue;
      METAC_ASSERT(made_[static_cast<size_t>(result->id)], "result v", result->id, " of a region of op ", op.id,
                   " is not made there");
      for (Expr d : result->shape())
        visit_symbols(d, [&](int id) {
          METAC_ASSERT(bound_[static_cast<size_t>(id)], "the shape of result v", result->id, " has n", id,
                       ", which nothing binds");
        });
    }
    made_ = made;
    bound_ = bound;
  }

  std::vector<bool> made_, bound_;
};

}  // namespace

Reads reads_of(const Op& op) {
  Collector all;
  all.all(op);
  return all.take();
}

Reads reads_of(const Region& region) {
  Collector all;
  all.region(region);
  return all.take();
}

static std::set<int> changing_symbols(const Region& body, const std::vector<Var*>& initial) {
  std::set<int> changing = {body.iteration};
  for (const Op* op : body.ops) changing.insert(op->symbols.begin(), op->symbols.end());
  for (size_t k = 0; k < body.params.size(); ++k)
    for (int d = 0; d < body.params[k]->rank(); ++d)
      if (const Dim dim = body.params[k]->shape()[d]; dim->kind == ExprKind::symbol && dim != initial[k]->shape()[d])
        changing.insert(dim->id);
  return changing;
}

Type stacked_type(Graph& graph, const Region& body, const std::vector<Var*>& initial, Type row, Expr trips,
                  std::vector<int>& fresh) {
  const std::set<int> changing = changing_symbols(body, initial);
  for (Dim& d : row.shape) {
    bool changes = false;
    visit_symbols(d, [&](int id) { changes |= changing.count(id) > 0; });
    if (!changes) continue;
    fresh.push_back(graph.add_symbol({.name = "row"}));
    d = symbol(fresh.back());
  }
  row.shape.insert(row.shape.begin(), trips);
  return row;
}

void verify_order(const Graph& graph) { OrderVerifier{graph}; }

}  // namespace metac
