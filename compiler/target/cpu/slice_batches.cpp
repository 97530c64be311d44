#include "compiler/target/cpu/slice_batches.h"

#include <algorithm>
#include <unordered_map>

#include "compiler/ir/walks.h"
#include "compiler/machine/cpu_costs.h"
#include "compiler/target/choices.h"
#include "compiler/target/cpu/batch_axes.h"
#include "compiler/target/cpu/plan_winograd.h"
#include "compiler/target/cpu/strategies/cpu_strategies.h"

namespace metac {
namespace {

// What one item moves.
struct Traffic {
  std::vector<int> reads, writes;  // Vars that follow the batch
  double weights = 0;              // bytes of the others
};

class BatchSlicer {
 public:
  explicit BatchSlicer(RegionState& s)
      : graph_(s.graph),
        region_(s.region),
        layouts_(s.layouts),
        needed_(s.needed),
        options_(s.options),
        axes_(s.graph, s.region, s.is_constant),
        cache_(static_cast<double>(s.options.cpu.l3_bytes) / 2) {}

  void run() {
    if (axes_.batch() < 2) return;
    for (int64_t s = 2; s <= axes_.batch(); ++s)
      if (axes_.batch() % s == 0) counts_.push_back(s);
    for (size_t k = 0; k < region_.items.size(); ++k) measure(k);
    note_uses();
    for (const Chain& chain : best_chains()) slice(chain);
  }

 private:
  struct Chain {
    size_t begin = 0, end = 0;
    int64_t count = 1;  // slices
  };

  Var* var(int id) const { return graph_.vars()[static_cast<size_t>(id)].get(); }

  double bytes(int id) const {
    const auto [known, fresh] = bytes_.try_emplace(id, 0);
    if (!fresh) return known->second;
    auto layout = layouts_.find(id);
    Expr elements = storage_elements(var(id)->shape(), layout == layouts_.end() ? Layout() : layout->second);
    return known->second = elements.if_int()
                               ? static_cast<double>(elements.as_int()) * static_cast<double>(size_of(var(id)->dtype()))
                               : 0;
  }

  void measure(size_t item) {
    Traffic t;
    std::set<int> seen, internal = region_.items[item].group.internal;
    for (const Definition& d : region_.items[item].group.stages) {
      visit_loads(d, [&](Expr n) {
        if (internal.count(n->id) || !seen.insert(n->id).second) return;
        if (axes_.of_var(n->id) >= 0)
          t.reads.push_back(n->id);
        else
          t.weights += bytes(n->id);
      });
      if (!internal.count(d.out->id)) t.writes.push_back(d.out->id);
    }
    traffic_.push_back(std::move(t));
  }

  // The first and the last item that touch each Var; Vars that others want in memory are touched by all.
  void note_uses() {
    auto touch = [&](int id, size_t item) {
      auto [at, fresh] = uses_.emplace(id, std::pair(item, item));
      if (!fresh) at->second = {std::min(at->second.first, item), std::max(at->second.second, item)};
    };
    for (size_t k = 0; k < traffic_.size(); ++k) {
      for (int id : traffic_[k].reads) touch(id, k);
      for (int id : traffic_[k].writes) touch(id, k);
    }
    auto everywhere = [&](const Var* v) {
      if (uses_.count(v->id)) uses_[v->id] = {0, traffic_.size()};
    };
    for (const Var* v : needed_.in_memory) everywhere(v);
    for (const Var* v : graph_.inputs) everywhere(v);
    for (auto& [view, source] : region_.views) everywhere(source), everywhere(var(view));
  }

  bool stays_inside(int id, size_t begin, size_t end) const {
    auto [first, last] = uses_.at(id);
    return begin <= first && last < end;
  }

  // ---- the choice: time for traffic, in bytes from memory ----
  // A worker takes whole slices through a chain (runtime/executor_slices.h): it finds what it wrote in a cache of its own.
  // Between chains workers read what others wrote, and where they share no last level that is little faster than memory.
  static constexpr double cached = cpu_costs.slice_cached, shared = cpu_costs.slice_shared, launch = cpu_costs.slice_launch;

  double alone(size_t k) const {
    double moved = 0;
    for (const auto* ids : {&traffic_[k].reads, &traffic_[k].writes})
      for (int id : *ids) moved += bytes(id);
    return (moved > cache_ ? moved : shared * moved) + traffic_[k].weights + launch;
  }

  double chained(size_t begin, size_t end, int64_t count) const {
    double cost = launch * static_cast<double>(count) * static_cast<double>(end - begin), weights = 0, slice = 0;
    for (size_t k = begin; k < end; ++k) {
      double moved = 0;
      for (const auto* ids : {&traffic_[k].reads, &traffic_[k].writes})
        for (int id : *ids) moved += bytes(id) / static_cast<double>(count);
      slice = std::max(slice, moved);
      weights += traffic_[k].weights;
      const bool fits = moved <= cache_;
      for (const auto* ids : {&traffic_[k].reads, &traffic_[k].writes})
        for (int id : *ids)
          cost += bytes(id) * (stays_inside(id, begin, end) ? (fits ? cached : 0.9) : bytes(id) > cache_ ? 1 : shared);
    }
    return cost + weights + static_cast<double>(count - 1) * weights * (weights + slice <= cache_ ? cached : 1);
  }

  std::vector<Chain> best_chains() const {
    constexpr size_t longest = 64;
    size_t n = region_.items.size();
    std::vector<double> least(n + 1, -1);
    std::vector<Chain> last(n + 1);
    least[0] = 0;
    for (size_t begin = 0; begin < n; ++begin) {
      auto offer = [&](size_t end, int64_t count, double cost) {
        double total = least[begin] + cost;
        if (least[end] >= 0 && total >= least[end]) return;
        least[end] = total;
        last[end] = {begin, end, count};
      };
      offer(begin + 1, 1, alone(begin));
      for (size_t end = begin + 1; end <= n && end <= begin + longest && !axes_.of_item(end - 1).empty(); ++end) {
        if (end - begin < 2) continue;
        for (int64_t count : counts_) offer(end, count, 1.05 * chained(begin, end, count));
      }
    }
    std::vector<Chain> chains;
    for (size_t end = n; end > 0; end = last[end].begin)
      if (last[end].count > 1) chains.push_back(last[end]);
    std::reverse(chains.begin(), chains.end());
    return chains;
  }

  int64_t rows_of(const Var* v) const { return v->shape()[static_cast<size_t>(axes_.of_var(v->id))].as_int(); }

  // ---- the rewriting ----
  void slice(const Chain& chain) {
    Symbol symbol;
    symbol.name = "slice";
    symbol.max = chain.count - 1;
    int id = graph_.add_symbol(symbol);
    std::map<int, Expr> first_row;  // of Vars that are addressed from the slice on
    std::set<Var*> inside;
    for (size_t k = chain.begin; k < chain.end; ++k) {
      for (const auto* ids : {&traffic_[k].reads, &traffic_[k].writes})
        for (int v : *ids) {
          if (stays_inside(v, chain.begin, chain.end))
            inside.insert(var(v));
          else
            first_row[v] = metac::symbol(id) * Expr(rows_of(var(v)) / chain.count);
        }
      for (int v : region_.items[k].group.internal) inside.insert(var(v));
    }
    for (size_t k = chain.begin; k < chain.end; ++k) {
      Group& group = region_.items[k].group;
      for (size_t s = 0; s < group.stages.size(); ++s) {
        Definition& d = group.stages[s];
        Expr& extent = d.domain[static_cast<size_t>(axes_.of_item(k)[s])];
        extent = extent.as_int() / chain.count;
        auto moved = [&](Expr e) {
          return rewrite_loads(e, [&](Expr n, std::vector<Expr> args) -> Expr {
            auto at = first_row.find(n->id);
            if (at == first_row.end()) return {};
            size_t axis_of = static_cast<size_t>(axes_.of_var(n->id));
            args[axis_of] = args[axis_of] + at->second;
            return load(n->id, n->dtype, args);
          });
        };
        d.body = moved(d.body);
        if (d.epilogue) d.epilogue = moved(d.epilogue);
        if (auto at = first_row.find(d.out->id); at != first_row.end()) {
          Expr& row = d.out_index[static_cast<size_t>(axes_.of_var(d.out->id))];
          row = row + at->second;
        }
      }
    }
    for (Var* v : inside) {
      Expr& rows = v->type.shape[static_cast<size_t>(axes_.of_var(v->id))];
      rows = rows.as_int() / chain.count;
    }
    for (size_t k = chain.begin; k < chain.end; ++k) {
      Group& group = region_.items[k].group;
      for (Definition& d : group.stages) simplify(d, graph_.symbols);
      if (const auto* plan = strategy_as<WinogradPlan>(group)) {
        auto shorter = std::make_shared<WinogradPlan>(*plan);
        choose_tile_blocks(group.stages[0], *shorter, options_.cpu, graph_.symbols);
        group.strategy = std::move(shorter);
      }
    }
    region_.repeats.push_back({chain.begin, chain.end, id, chain.count});
  }

  Graph& graph_;
  FusedRegion& region_;
  const Layouts& layouts_;
  const Needed& needed_;
  const CompileOptions& options_;
  BatchAxes axes_;
  double cache_;  // bytes of the last level that a chain can count on: half, the rest holds what comes and goes
  std::vector<int64_t> counts_;
  std::vector<Traffic> traffic_;
  mutable std::unordered_map<int, double> bytes_;  // of Vars
  std::map<int, std::pair<size_t, size_t>> uses_;  // Var id -> first and last item
};

}  // namespace

// Do all results and inputs together fit into the cache? Then nothing is to be gained.
static bool all_fit(const Graph& graph, const FusedRegion& region, int64_t cache_bytes) {
  double bytes = 0;
  auto add = [&](const Var* v) {
    Expr elements = element_count(v->shape());
    if (elements.if_int()) bytes += static_cast<double>(elements.as_int()) * static_cast<double>(size_of(v->dtype()));
  };
  for (const Var* in : graph.inputs) add(in);
  for (const Item& item : region.items)
    for (const Definition& d : item.group.stages) add(d.out);
  return bytes <= static_cast<double>(cache_bytes);
}

void slice_batches(RegionState& state) {
  if (all_fit(state.graph, state.region, state.options.cpu.l3_bytes)) return;
  if (choose(state.options.choices, "the batch", "slices", {"by traffic", "none"}) == 1) return;
  BatchSlicer(state).run();
}

}  // namespace metac
