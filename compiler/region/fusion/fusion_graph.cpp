#include "compiler/region/fusion/fusion_graph.h"

#include <algorithm>

#include "compiler/ir/hints.h"
#include "compiler/ir/reads.h"
#include "compiler/support/diagnostic.h"

namespace metac {

bool rule_1_allows(const FusionVertex& reader, bool reads_at_point) { return !reader.reindexes && reads_at_point; }

bool rule_2_allows(const FusionVertex& maker) { return !maker.d.reduce; }

namespace {

class Builder {
 public:
  Builder(const Needed& needed, const std::function<bool(const Var*)>& is_constant, const std::vector<Symbol>& symbols)
      : needed_(needed), is_constant_(is_constant), symbols_(symbols) {}

  FusionGraph run(const std::vector<Op*>& ops) {
    for (const Op* op : ops) add_op(op);
    absorb_broadcasts();
    remove_dead();
    for (size_t v = 0; v < graph_.vertices.size(); ++v) add_edges(static_cast<int>(v));
    return std::move(graph_);
  }

 private:
  FusionVertex& vertex(int v) { return graph_.vertices[static_cast<size_t>(v)]; }

  void add_op(const Op* op) {
    for (const Var* in : op->inputs)
      if (in) vars_[in->id] = in;
    for (const Var* out : op->outputs) vars_[out->id] = out;
    if (op->kind != OpKind::elementwise && op->kind != OpKind::reindex && op->kind != OpKind::reindex_reduce) {
      FusionVertex v;
      v.host = op;
      add_vertex(std::move(v));
      return;
    }
    for (Definition& d : definitions_of(op, symbols_)) {
      FusionVertex v;
      v.inverted = op->kind == OpKind::reindex_reduce && !d.scatter && !is_projection(*op);
      v.reindexes = op->kind == OpKind::reindex || (v.inverted && !d.reduce);
      v.domain = op->kind == OpKind::reindex_reduce && d.reduce ? op->inputs[0]->shape() : d.domain;
      v.point = v.inverted ? identity_indices(static_cast<int>(v.domain.size())) : point_of(*op, d);
      v.kept = needed_.in_memory.count(d.out) > 0;
      v.d = std::move(d);
      measure(v);
      v.constant_only = depends_on_constants_only(v.d);
      add_vertex(std::move(v));
    }
  }

  // Does the reduction keep some axes as they are? (Else it scatters, and may have been inverted.)
  static bool is_projection(const Op& op) {
    std::set<int> kept;
    const Shape &in = op.inputs[0]->shape(), &out = op.outputs[0]->shape();
    for (size_t k = 0; k < op.indices.size(); ++k) {
      Expr e = op.indices[k];
      bool keeps = e->kind == ExprKind::axis && in[static_cast<size_t>(e->id)] == out[k] && kept.insert(e->id).second;
      if (!keeps && !(e.is_int(0) && out[k].is_int(1))) return false;
    }
    return true;
  }

  // definitions_of puts the axes that a reduction keeps first, in the order of its result, then the others.
  static std::vector<Expr> point_of(const Op& op, const Definition& d) {
    std::vector<Expr> point = identity_indices(static_cast<int>(d.domain.size()));
    if (!d.reduce || d.scatter) return point;
    std::fill(point.begin(), point.end(), Expr());
    int next = 0;
    for (Expr e : op.indices)
      if (e->kind == ExprKind::axis) point[static_cast<size_t>(e->id)] = axis(next++);
    for (Expr& e : point)
      if (!e) e = axis(next++);
    return point;
  }

  void add_vertex(FusionVertex v) {
    int index = static_cast<int>(graph_.vertices.size());
    if (v.host) {
      for (const Var* out : v.host->outputs) maker_[out->id] = index;
    } else {
      maker_[v.d.out->id] = index;
    }
    graph_.vertices.push_back(std::move(v));
  }

  static void measure(FusionVertex& v) {
    v.nodes_in_body = 0;
    for (Expr e : {v.d.body, v.d.epilogue})
      if (e) visit(e, [&](Expr) { ++v.nodes_in_body; });
  }

  bool depends_on_constants_only(const Definition& d) {
    bool constant = is_static(d.domain), any = false;
    visit_loads(d, [&](Expr n) {
      any = true;
      auto maker = maker_.find(n->id);
      constant =
          constant && (is_constant_(vars_.at(n->id)) || (maker != maker_.end() && vertex(maker->second).constant_only));
    });
    return any && constant;
  }

  // Does the reader load the Var only where it is itself? (An index along an axis of extent 1 may have become 0.) A scatter
  // does, in whatever form.
  bool reads_at_point(const FusionVertex& reader, const Var* var) const {
    if (var->shape() != reader.domain) return false;
    if (reader.inverted) return true;
    bool good = true;
    visit_loads(reader.d, [&](Expr n) {
      if (n->id != var->id) return;
      for (size_t k = 0; k < n->args.size(); ++k)
        good = good && (n->args[k] == reader.point[k] || (n->args[k].is_int(0) && reader.domain[k].is_int(1)));
    });
    return good;
  }

  bool may_fuse(const FusionVertex& maker, const FusionVertex& reader, const Var* var) const {
    if (maker.host || reader.host || var->stop_fuse) return false;
    if (!rule_1_allows(reader, reads_at_point(reader, var)) || !rule_2_allows(maker)) return false;
    // What `prepare` computes is not computed again in every run; a Reindex of it costs nothing in either.
    return maker.constant_only == reader.constant_only || maker.reindexes;
  }

  static bool reads(const FusionVertex& v, int id) {
    bool found = false;
    if (v.host) return false;
    visit_loads(v.d, [&](Expr n) { found = found || n->id == id; });
    return found;
  }

  bool makes_more_than_it_reads(const FusionVertex& v) const {
    int64_t read = 0;
    visit_loads(v.d, [&](Expr n) { read = std::max(read, hinted_bytes(vars_.at(n->id), symbols_)); });
    return hinted_bytes(v.d.out, symbols_) > read;
  }

  void absorb_broadcasts() {
    std::map<int, std::vector<int>> readers;  // Var id -> vertices
    for (size_t v = 0; v < graph_.vertices.size(); ++v) {
      std::set<int> ids;
      if (!graph_.vertices[v].host) visit_loads(graph_.vertices[v].d, [&](Expr n) { ids.insert(n->id); });
      for (int id : ids) readers[id].push_back(static_cast<int>(v));
    }
    for (FusionVertex& v : graph_.vertices) {
      if (!v.reindexes || readers[v.d.out->id].size() < 2 || !makes_more_than_it_reads(v)) continue;
      for (int r : readers[v.d.out->id]) {
        FusionVertex& reader = vertex(r);
        if (!may_fuse(v, reader, v.d.out)) continue;
        replace_loads(reader.d, v.d.out->id, [&](const std::vector<Expr>& at) { return substitute_axes(v.d.body, at); });
        simplify(reader.d, symbols_);
        merge_nodes(reader.d.nodes, v.d.nodes);
        measure(reader);
      }
    }
  }

  void visit_reads(const FusionVertex& v, const std::function<void(int)>& f) const {
    if (!v.host) return visit_loads(v.d, [&](Expr n) { f(n->id); });
    for (const Var* in : reads_of(*v.host).vars) f(in->id);
  }

  void remove_dead() {
    std::set<int> live;
    std::vector<FusionVertex> kept;
    for (size_t v = graph_.vertices.size(); v-- > 0;) {
      FusionVertex& x = graph_.vertices[v];
      if (!x.host && !x.kept && !live.count(x.d.out->id)) continue;
      visit_reads(x, [&](int id) { live.insert(id); });
      kept.push_back(std::move(x));
    }
    std::reverse(kept.begin(), kept.end());
    graph_.vertices.clear();
    maker_.clear();
    for (FusionVertex& v : kept) add_vertex(std::move(v));
    for (size_t v = 0; v < graph_.vertices.size(); ++v)
      if (const Op* host = graph_.vertices[v].host) note_bound_symbols(*host, static_cast<int>(v));
  }

  void note_bound_symbols(const Op& op, int v) {
    for (int id : op.symbols)
      if (!symbols_[static_cast<size_t>(id)].from_input) binder_.emplace(id, v);
  }

  void add_edges(int v) {
    std::map<int, std::set<int>> from;  // maker -> Vars
    visit_reads(vertex(v), [&](int id) {
      auto maker = maker_.find(id);
      if (maker != maker_.end() && maker->second != v) from[maker->second].insert(id);
    });
    if (!binder_.empty()) add_symbol_makers(v, from);
    for (auto& [maker, ids] : from) {
      for (int id : ids) {
        const Var* var = vars_.at(id);
        add_edge({maker, v, id, hinted_bytes(var, symbols_), may_fuse(vertex(maker), vertex(v), var)});
      }
      if (ids.empty()) add_edge({maker, v, -1, 0, false});
    }
  }

  void add_edge(FusionEdge edge) {
    int number = static_cast<int>(graph_.edges.size());
    vertex(edge.from).out.push_back(number);
    vertex(edge.to).in.push_back(number);
    graph_.edges.push_back(edge);
  }

  // A symbol that a host step binds must have its value before anything uses it.
  void add_symbol_makers(int v, std::map<int, std::set<int>>& from) {
    const FusionVertex& x = vertex(v);
    const auto note = [&](int id) {
      auto binder = binder_.find(id);
      if (binder != binder_.end() && binder->second < v) from[binder->second];
    };
    if (x.host) {
      for (int id : reads_of(*x.host).symbols) note(id);
      return;
    }
    visit_symbols(x.d, note);
    visit_loads(x.d, [&](Expr n) {
      for (Expr d : vars_.at(n->id)->shape()) visit_symbols(d, note);
    });
  }

  const Needed& needed_;
  const std::function<bool(const Var*)>& is_constant_;
  const std::vector<Symbol>& symbols_;
  FusionGraph graph_;
  std::map<int, int> maker_;   // Var id -> vertex
  std::map<int, int> binder_;  // symbol -> vertex
  std::map<int, const Var*> vars_;
};

}  // namespace

FusionGraph build_fusion_graph(const std::vector<Op*>& ops, const Needed& needed,
                               const std::function<bool(const Var*)>& is_constant, const std::vector<Symbol>& symbols) {
  return Builder(needed, is_constant, symbols).run(ops);
}

}  // namespace metac
