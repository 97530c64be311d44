#include "compiler/region/verify_region.h"

#include <map>
#include <set>

#include "compiler/ir/reads.h"
#include "compiler/ir/walks.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

class DefinitionVerifier {
 public:
  DefinitionVerifier(const Definition& d, const Graph& graph, std::string_view pass) : d_(d), graph_(graph), pass_(pass) {}

  void run() {
    require(d_.out != nullptr, "it makes nothing");
    require(0 <= d_.reduced && d_.kept() >= 0, "more axes are reduced than there are");
    require((d_.reduced > 0) <= d_.reduce.has_value(), "axes are reduced by nothing");
    require(!d_.scatter || d_.reduced == 0, "a scatter reduces axes");
    require(static_cast<int>(d_.out_index.size()) == d_.out->rank(), "it has another rank than what it makes");
    require(bool(d_.body), "it has no body");
    const int axes = static_cast<int>(d_.domain.size());
    for (Expr extent : d_.domain) check(extent, 0, "an extent");
    check(d_.body, axes, "the body");
    for (Expr condition : d_.conditions) {
      check(condition, axes, "a condition");
      require(condition->dtype == DType::boolean, "a condition is no bool");
    }
    for (Expr index : d_.out_index) {
      check(index, d_.scatter ? axes : d_.kept(), "a place in the result");
      require(index->dtype == DType::i64, "a place in the result is no int64");
    }
    require(d_.conditions.empty() || d_.scatter, "conditions outside of a scatter");
    if (d_.reduce || d_.scatter) {
      require(d_.body->dtype == d_.accumulator, "the body has another dtype than the accumulator");
      require(bool(d_.epilogue), "it has no epilogue");
      check(d_.epilogue, d_.scatter ? axes : d_.kept(), "the epilogue", true);
      require(d_.epilogue->dtype == d_.out->dtype(), "the epilogue has another dtype than what it makes");
    } else {
      require(!d_.epilogue, "it has an epilogue and reduces nothing");
      require(d_.body->dtype == d_.out->dtype(), "the body has another dtype than what it makes");
    }
  }

 private:
  void require(bool holds, const char* what) const {
    METAC_ASSERT(holds, "after ", pass_, ", v", d_.out ? d_.out->id : -1, ": ", what, "\n", to_string(d_));
  }

  void check(Expr e, int axes, const char* where, bool reduced = false) {
    require(bool(e), where);
    visit(e, [&](Expr n) {
      if (n->kind == ExprKind::axis) {
        METAC_ASSERT(0 <= n->id && n->id < axes, "after ", pass_, ", v", d_.out->id, ": ", where, " reads axis ", n->id,
                     " of ", axes, "\n", to_string(d_));
      } else if (n->kind == ExprKind::symbol) {
        METAC_ASSERT(static_cast<size_t>(n->id) < graph_.symbols.size(), "after ", pass_, ": there is no symbol ", n->id);
      } else if (n->kind == ExprKind::load) {
        if (n->id == reduced_value) {
          METAC_ASSERT(reduced && n->args.empty() && n->dtype == d_.accumulator, "after ", pass_, ", v", d_.out->id, ": ",
                       where, " reads a reduced value that there is not\n", to_string(d_));
          return;
        }
        METAC_ASSERT(0 <= n->id && static_cast<size_t>(n->id) < graph_.vars().size(), "after ", pass_, ", v", d_.out->id,
                     ": ", where, " reads v", n->id, ", which there is not");
        const Var& read = *graph_.vars()[static_cast<size_t>(n->id)];
        METAC_ASSERT(is_read_as(read.dtype(), n->dtype) && static_cast<int>(n->args.size()) == read.rank(), "after ", pass_,
                     ", v", d_.out->id, ": ", where, " reads v", n->id, ", ", name_of(read.dtype()), " of shape ",
                     to_string(read.shape()), ", as ", name_of(n->dtype), " at ", n->args.size(), " indices\n",
                     to_string(d_));
      }
    });
  }

  const Definition& d_;
  const Graph& graph_;
  std::string_view pass_;
};

class RegionVerifier {
 public:
  RegionVerifier(const FusedRegion& region, const Graph& graph, std::string_view pass)
      : r_(region), graph_(graph), pass_(pass) {}

  void run() {
    for (const auto& [view, source] : r_.views)
      METAC_ASSERT(source && root_of(view) >= 0, "after ", pass_, ", v", view, ": a view of itself");
    for (const Item& item : r_.items) collect(item);
    for (size_t k = 0; k < r_.items.size(); ++k) check(r_.items[k], k);
    size_t end = 0;
    for (const Repeat& repeat : r_.repeats) {
      METAC_ASSERT(end <= repeat.begin && repeat.begin < repeat.end && repeat.end <= r_.items.size(), "after ", pass_,
                   ": repeats overlap or end behind the last item");
      for (const auto* assigned : {&repeat.before, &repeat.each})
        for (const auto& [symbol, value] : *assigned)
          METAC_ASSERT(symbol >= 0 && symbol < static_cast<int>(graph_.symbols.size()) && bool(value), "after ", pass_,
                       ": a repeat assigns n", symbol);
      end = repeat.end;
    }
  }

 private:
  // Whose memory it is; -1: it goes round.
  int root_of(int var) const {
    for (size_t steps = 0; steps <= r_.views.size(); ++steps) {
      auto view = r_.views.find(var);
      if (view == r_.views.end()) return var;
      var = view->second->id;
    }
    return -1;
  }

  void collect(const Item& item) {
    if (item.op) {
      for (const Var* out : item.op->outputs)
        if (out) ++makers_[out->id];
      return;
    }
    METAC_ASSERT(!item.group.stages.empty(), "after ", pass_, ": a kernel without definitions");
    if (const Strategy* strategy = item.group.strategy.get()) {
      const std::string misfit = strategy->misfit(item.group);
      METAC_ASSERT(misfit.empty(), "after ", pass_, ", v", item.group.stages.back().out->id, ": the strategy ",
                   strategy->to_string(), " does not go with the group: ", misfit);
    }
    for (const Definition& d : item.group.stages) {
      verify_definition(d, graph_, pass_);
      ++makers_[d.out->id];
      if (item.group.internal.count(d.out->id)) own_.insert(d.out->id);
    }
  }

  void read(int var, size_t item) const {
    const int root = root_of(var);
    auto makers = makers_.find(root);
    METAC_ASSERT(makers == makers_.end() || makers->second == 0, "after ", pass_, ": item ", item, " reads v", var,
                 " before it is written\n", to_string(r_));
    METAC_ASSERT(!own_.count(root) || inside_.count(root), "after ", pass_, ": item ", item, " reads v", var,
                 ", which another kernel keeps for itself\n", to_string(r_));
  }

  void check(const Item& item, size_t k) {
    inside_.clear();
    if (item.op) {
      for (const Var* in : reads_of(*item.op).vars) read(in->id, k);
      for (const Var* out : item.op->outputs)
        if (out) --makers_[out->id];
      return;
    }
    const Group& g = item.group;
    METAC_ASSERT(g.shared >= 0, "after ", pass_, ": item ", k, " shares ", g.shared, " axes");
    for (const Definition& d : g.stages) {
      METAC_ASSERT(g.shared <= (d.scatter ? static_cast<int>(d.domain.size()) : d.kept()), "after ", pass_, ": item ", k,
                   " shares axes that v", d.out->id, " has not\n", to_string(r_));
      for (int axis = 0; axis < g.shared; ++axis)
        METAC_ASSERT(d.domain[static_cast<size_t>(axis)] == g.stages[0].domain[static_cast<size_t>(axis)], "after ", pass_,
                     ": item ", k, " shares axes of several extents\n", to_string(r_));
      visit_loads(d, [&](Expr n) { read(n->id, k); });
      --makers_[d.out->id];
      inside_.insert(d.out->id);
    }
    for (int own : g.internal)
      METAC_ASSERT(inside_.count(own) && !r_.views.count(own), "after ", pass_, ": item ", k, " keeps v", own,
                   ", which it does not make\n", to_string(r_));
  }

  const FusedRegion& r_;
  const Graph& graph_;
  std::string_view pass_;
  std::map<int, int> makers_;   // Var id -> how many definitions that write it, or part of it, are still to come
  std::set<int> own_, inside_;  // written by some kernel for itself; by this item
};

}  // namespace

void verify_definition(const Definition& d, const Graph& graph, std::string_view pass) {
  DefinitionVerifier(d, graph, pass).run();
}

void verify_region(const FusedRegion& region, const Graph& graph, std::string_view pass) {
  RegionVerifier(region, graph, pass).run();
}

}  // namespace metac
