#include "compiler/target/cpu/slice_batches.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "compiler/ir/hints.h"
#include "compiler/ir/walks.h"
#include "compiler/machine/cpu_costs.h"
#include "compiler/target/choices.h"
#include "compiler/target/cpu/batch_axes.h"
#include "compiler/target/cpu/layouts/plan_winograd.h"
#include "compiler/target/cpu/strategies/cpu_strategies.h"

namespace metac {
namespace {

// What one item moves.
struct Traffic {
  struct Moved {
    double bytes = 0;
    size_t first = 0, last = 0;  // items that touch it
  };

  std::vector<int> reads, writes;  // Vars that follow the batch
  double weights = 0;              // bytes of the others
  std::vector<Moved> moved;        // of the reads, then of the writes: chains are many, and ask nothing else
};

// Bytes of all inputs and results, by what an expression for a number of elements comes to.
double bytes_of_all(const Graph& graph, const FusedRegion& region, const std::function<double(Expr)>& elements) {
  double bytes = 0;
  auto add = [&](const Var* v) { bytes += elements(element_count(v->shape())) * static_cast<double>(size_of(v->dtype())); };
  for (const Var* in : graph.inputs) add(in);
  for (const Item& item : region.items)
    for (const Definition& d : item.group.stages) add(d.out);
  return bytes;
}

class BatchSlicer {
 public:
  explicit BatchSlicer(RegionState& s)
      : graph_(s.graph),
        region_(s.region),
        layouts_(s.layouts),
        needed_(s.needed),
        options_(s.options),
        axes_(s.graph, s.region, s.is_constant),
        typical_(s.graph.symbols),
        cache_(static_cast<double>(s.options.cpu.l3_bytes) / 2) {}

  void run() {
    const Expr batch = axes_.batch();
    if (batch.is_int(1)) return;
    images_ = batch.if_int() ? batch.as_int() : typical_batch(typical_[static_cast<size_t>(batch->id)]);
    if (!batch.if_int()) typical_[static_cast<size_t>(batch->id)].hint = images_;
    for (Expr dim : axes_.input()->shape()) elements_ = elements_ * dim;
    elements_ = rows_of_image(elements_, batch);
    if (!elements_ || elements_.is_int(0)) return;
    fits_whole_ = fits_whole();
    for (int64_t s = 2; s <= images_; ++s)
      if (images_ % s == 0) counts_.push_back(s);
    // A run's images may be smaller than typical ones: where one of these is more than the cache holds, slices of a part
    // of its size serve smaller ones, and cost little where images are larger than that.
    constexpr int64_t smallest_part = 8;
    for (int64_t parts = 2; !elements_.if_int() && parts <= smallest_part; parts *= 2) counts_.push_back(images_ * parts);
    for (size_t k = 0; k < region_.items.size(); ++k) measure(k);
    note_uses();
    for (const Chain& chain : best_chains()) slice(chain);
  }

 private:
  struct Chain {
    size_t begin = 0, end = 0;
    int64_t count = 1;  // slices; where dims are open, of a batch of `images_`, and of parts of images if they are more
  };
  // How a chain is cut.
  struct Slices {
    Expr first, images;  // of a slice, over symbols
    Repeat repeat;       // but for its items
  };

  bool is_open() const { return !axes_.batch().if_int() || !elements_.if_int(); }

  // Chains are chosen for so many images of an open batch: enough that what is said once a chain does not count.
  static int64_t typical_batch(const Symbol& batch) {
    constexpr int64_t many = 32;
    return std::max<int64_t>(std::min(batch.hint > 1 ? batch.hint : many, batch.max), 1);
  }

  Var* var(int id) const { return graph_.vars()[static_cast<size_t>(id)].get(); }

  double bytes(int id) const {
    const auto [known, fresh] = bytes_.try_emplace(id, 0);
    if (!fresh) return known->second;
    auto layout = layouts_.find(id);
    Expr elements = storage_elements(var(id)->shape(), layout == layouts_.end() ? Layout() : layout->second);
    return known->second = typical(elements) * static_cast<double>(size_of(var(id)->dtype()));
  }

  double typical(Expr elements) const { return static_cast<double>(hinted_value(elements, typical_)); }

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
    for (Traffic& t : traffic_)
      for (const auto* ids : {&t.reads, &t.writes})
        for (int id : *ids) t.moved.push_back({bytes(id), uses_.at(id).first, uses_.at(id).second});
  }

  bool stays_inside(int id, size_t begin, size_t end) const {
    auto [first, last] = uses_.at(id);
    return begin <= first && last < end;
  }

  // ---- the choice: time for traffic, in bytes from memory ----
  // A worker takes whole slices through a chain (runtime/executor/slices.h): it finds what it wrote in a cache of its own.
  // Between chains workers read what others wrote, and where they share no last level that is little faster than memory.
  static constexpr double cached = cpu_costs.slice_cached, shared = cpu_costs.slice_shared, launch = cpu_costs.slice_launch;

  // Of a byte that the slice wrote itself, where an item of it moves so many. Slices that no cache holds are better short:
  // caches are no cliffs, and the values between need less memory.
  double cost_again(double moved) const {
    if (moved <= cache_) return cached;
    const double far = std::min(std::log2(moved / cache_) / cpu_costs.slice_octaves, 1.0);
    return cpu_costs.slice_beyond + far * (cpu_costs.slice_far_beyond - cpu_costs.slice_beyond);
  }

  double alone(size_t k) const {
    double moved = 0;
    for (const Traffic::Moved& m : traffic_[k].moved) moved += m.bytes;
    return (moved > cache_ ? moved : shared * moved) + traffic_[k].weights + launch;
  }

  double chained(size_t begin, size_t end, int64_t count) const {
    double cost = launch * static_cast<double>(count) * static_cast<double>(end - begin), weights = 0, slice = 0;
    for (size_t k = begin; k < end; ++k) {
      double moved = 0;
      for (const Traffic::Moved& m : traffic_[k].moved) moved += m.bytes / static_cast<double>(count);
      slice = std::max(slice, moved);
      weights += traffic_[k].weights;
      const double again = cost_again(moved);
      for (const Traffic::Moved& m : traffic_[k].moved) {
        const bool inside = begin <= m.first && m.last < end;
        cost += m.bytes * (inside ? again : m.bytes > cache_ ? 1 : shared);
      }
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
        for (int64_t count : counts_) offer(end, count, cpu_costs.slice_worth * chained(begin, end, count));
      }
    }
    std::vector<Chain> chains;
    for (size_t end = n; end > 0; end = last[end].begin)
      if (last[end].count > 1) chains.push_back(last[end]);
    std::reverse(chains.begin(), chains.end());
    return chains;
  }

  Expr rows_of(const Var* v) const {
    return rows_of_image(v->shape()[static_cast<size_t>(axes_.of_var(v->id))], axes_.batch());
  }

  // ---- how chains are cut ----
  Slices slices_of(const Chain& chain) {
    if (is_open()) return open_slices(images_ * hinted_value(elements_, typical_) / chain.count, worth_two_slices(chain));
    Slices s;
    s.repeat.symbol = add_symbol("slice", 0, chain.count - 1);
    s.repeat.count = chain.count;
    s.images = images_ / chain.count;
    s.first = symbol(s.repeat.symbol) * s.images;
    return s;
  }

  int add_symbol(const char* name, int64_t least, int64_t most, int64_t hint = 0) {
    Symbol s;
    s.name = name;
    s.min = least;
    s.max = most;
    s.hint = hint;
    return graph_.add_symbol(s);
  }

  // Do all results and inputs together fit into the cache? Only workers gain by slices then. By the bytes of typical sizes,
  // as many for each element of the input. Before anything is cut.
  Expr fits_whole() const {
    const double bytes = bytes_of_all(graph_, region_, [&](Expr elements) { return typical(elements); });
    const double each = std::max(bytes / (static_cast<double>(images_) * typical(elements_)), 1e-3);
    return axes_.batch() * elements_ <= Expr(static_cast<int64_t>(static_cast<double>(options_.cpu.l3_bytes) / each));
  }

  // From how many of the input's elements in all images on two slices take less time than one: what is between kernels is
  // in the cache of the worker that wrote it, and the weights are read twice. A power of two, so that chains share slices.
  int64_t worth_two_slices(const Chain& chain) const {
    constexpr int64_t never = int64_t{1} << 40;
    double weights = 0, inside = 0;
    for (size_t k = chain.begin; k < chain.end; ++k) {
      weights += traffic_[k].weights;
      for (const Traffic::Moved& m : traffic_[k].moved)
        if (chain.begin <= m.first && m.last < chain.end) inside += m.bytes;
    }
    const double won = (shared - cached) * inside / (static_cast<double>(images_) * typical(elements_));
    int64_t least = 1;
    while (least < never && static_cast<double>(least) * won < weights * (weights <= cache_ ? cached : 1)) least *= 2;
    return least;
  }

  // `elements`: of the input, in a slice; worth_two: from so many in a run on there are two at least. Chains whose slices
  // have as many share symbols, so that kernels that are alike stay so.
  const Slices& open_slices(int64_t elements, int64_t worth_two) {
    auto [known, fresh] = open_.try_emplace({elements, worth_two});
    Slices& s = known->second;
    if (!fresh) return s;
    const Expr batch = axes_.batch();
    const int64_t most = batch.if_int() ? batch.as_int() : graph_.symbols[static_cast<size_t>(batch->id)].max;
    const int64_t least = batch.if_int() ? 1 : std::min<int64_t>(graph_.symbols[static_cast<size_t>(batch->id)].min, 1);
    // Slices are equally long but for the last one.
    const Expr fitting = max(floor_div(Expr(elements), elements_), Expr(1));
    // Where all fits, slices serve workers alone, who take them side by side if they are busy for 0.8 of the time
    // (runtime/executor/slices.h): two, but not of three images.
    const Expr even = Expr(8) * ceil_div(batch, 2) <= Expr(5) * batch;
    const Expr two = select(logical_and(even, Expr(worth_two) <= batch * elements_), Expr(2), Expr(1));
    const Expr slices = max(select(fits_whole_, Expr(1), ceil_div(batch, fitting)), two);
    const Expr whole = ceil_div(batch, slices);
    // Kernels are made for as many images as without slices: a run may have one alone.
    const int64_t hint = batch.if_int() ? std::max<int64_t>(elements / hinted_value(elements_, typical_), 1)
                                        : graph_.symbols[static_cast<size_t>(batch->id)].hint;
    const int length = add_symbol("images of a slice", least, most, hint), slice = add_symbol("slice", 0, most);
    const int first = add_symbol("first image", 0, most), count = add_symbol("images", least, most, hint);
    graph_.symbols[static_cast<size_t>(count)].most = graph_.symbols[static_cast<size_t>(length)].most = whole;
    s.first = symbol(first);
    s.images = symbol(count);
    s.repeat.symbol = slice;
    s.repeat.count = ceil_div(batch, whole);
    s.repeat.before = {{length, whole}};
    s.repeat.each = {{first, symbol(slice) * symbol(length)}, {count, min(symbol(length), batch - symbol(first))}};
    s.repeat.length = count;
    s.repeat.whole = batch;
    return s;
  }

  // ---- the rewriting ----
  void slice(const Chain& chain) {
    const Slices slices = slices_of(chain);
    auto sliced = [&](Expr extent) { return rows_of_image(extent, axes_.batch()) * slices.images; };
    std::map<int, Expr> first_row;  // of Vars that are addressed from the slice on
    std::set<Var*> inside;
    for (size_t k = chain.begin; k < chain.end; ++k) {
      for (const auto* ids : {&traffic_[k].reads, &traffic_[k].writes})
        for (int v : *ids) {
          if (stays_inside(v, chain.begin, chain.end))
            inside.insert(var(v));
          else
            first_row[v] = slices.first * rows_of(var(v));
        }
      for (int v : region_.items[k].group.internal) inside.insert(var(v));
    }
    for (size_t k = chain.begin; k < chain.end; ++k) {
      Group& group = region_.items[k].group;
      for (size_t s = 0; s < group.stages.size(); ++s) {
        Definition& d = group.stages[s];
        Expr& extent = d.domain[static_cast<size_t>(axes_.of_item(k)[s])];
        extent = sliced(extent);
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
      rows = sliced(rows);
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
    Repeat repeat = slices.repeat;
    repeat.begin = chain.begin;
    repeat.end = chain.end;
    region_.repeats.push_back(std::move(repeat));
  }

  Graph& graph_;
  FusedRegion& region_;
  const Layouts& layouts_;
  const Needed& needed_;
  const CompileOptions& options_;
  BatchAxes axes_;
  std::vector<Symbol> typical_;                         // with the images that chains are chosen for
  int64_t images_ = 1;                                  // so many
  Expr elements_ = 1;                                   // of the input, for each image
  Expr fits_whole_;                                     // a condition
  std::map<std::pair<int64_t, int64_t>, Slices> open_;  // by what open_slices takes
  double cache_;  // bytes of the last level that a chain can count on: half, the rest holds what comes and goes
  std::vector<int64_t> counts_;
  std::vector<Traffic> traffic_;
  mutable std::unordered_map<int, double> bytes_;  // of Vars
  std::map<int, std::pair<size_t, size_t>> uses_;  // Var id -> first and last item
};

}  // namespace

// Whatever the caller's dims are. What only the data size does not count.
static bool all_fit(const Graph& graph, const FusedRegion& region, int64_t cache_bytes) {
  bool open = false;
  const double bytes = bytes_of_all(graph, region, [&](Expr elements) {
    open |= any_of(elements, [&](Expr n) {
      return n->kind == ExprKind::symbol && graph.symbols[static_cast<size_t>(n->id)].from_input;
    });
    return elements.if_int() ? static_cast<double>(elements.as_int()) : 0;
  });
  return !open && bytes <= static_cast<double>(cache_bytes);
}

void slice_batches(RegionState& state) {
  // A training program's batch is as long as the recipe says, and its chains were never measured.
  const bool trains = !state.options.next_values.empty();
  if (trains &&
      std::any_of(state.graph.symbols.begin(), state.graph.symbols.end(), [](const Symbol& s) { return s.from_input; }))
    return;
  if (all_fit(state.graph, state.region, state.options.cpu.l3_bytes)) return;
  if (Choices* const choices = state.options.choices) {
    const Transform by_traffic{"slices", "traffic"}, none{"slices", "none"};
    const Transform* taken = choices->ask(batch_subject, "slices", {by_traffic, none});
    if (taken && *taken == none) return;
    if (taken && *taken != by_traffic) choices->refuse(batch_subject, *taken, "slices are cut by traffic, or none");
  }
  BatchSlicer(state).run();
}

}  // namespace metac
