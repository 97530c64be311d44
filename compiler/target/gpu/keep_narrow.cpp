#include "compiler/target/gpu/keep_narrow.h"

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "compiler/ir/hints.h"
#include "compiler/machine/gpu_costs.h"
#include "compiler/region/region_uses.h"
#include "compiler/target/gpu/strategies/gpu_strategies.h"

namespace metac {
namespace {

class NarrowWeights {
 public:
  explicit NarrowWeights(RegionState& state) : s_(state), uses_(state.region.items), prepared_(state.prepare.items) {}

  void run() {
    std::vector<const Definition*> weights;  // by item: how `prepare` widens the one that a product reads; null: none
    for (const Item& item : s_.region.items) weights.push_back(weight_of(item));
    std::vector<Item> items;
    for (size_t k = 0; k < s_.region.items.size(); ++k) {
      Item& item = s_.region.items[k];
      if (weights[k] && wide_.count(weights[k]->out->id) == 0)
        compute_by_rows(item.group.stages[0], *weights[k], items);
      else
        items.push_back(std::move(item));
    }
    s_.region.items = std::move(items);
    std::erase_if(s_.prepare.items, [this](const Item& item) {
      return !item.op && item.group.stages.size() == 1 && gone_.count(item.group.stages[0].out->id) > 0;
    });
  }

 private:
  // Of a product that reads several such weights, all stay wide.
  const Definition* weight_of(const Item& item) {
    if (item.op || item.group.stages.size() != 1) return nullptr;
    std::set<const Definition*> found;
    visit_loads(item.group.stages[0], [&](Expr n) {
      if (const Definition* const widened = widening(n->id)) found.insert(widened);
    });
    if (found.size() > 1)
      for (const Definition* widened : found) wide_.insert(widened->out->id);
    return found.size() == 1 ? *found.begin() : nullptr;
  }

  // A prepared Var that only products read and that is made of numbers of half its bytes at most.
  const Definition* widening(int id) {
    const auto [known, fresh] = widenings_.try_emplace(id, nullptr);
    if (!fresh) return known->second;
    const std::vector<size_t>& makers = prepared_.makers(id);
    if (makers.size() != 1 || !prepared_.readers(id).empty() || uses_.readers(id).empty() || is_seen(id)) return nullptr;
    const Item& maker = s_.prepare.items[makers[0]];
    if (maker.op || maker.group.stages.size() != 1) return nullptr;
    const Definition& d = maker.group.stages[0];
    if (!d.is_plain() || d.out_index != identity_indices(d.out->rank()) || d.domain.empty() || s_.layouts.count(id) > 0)
      return nullptr;
    std::set<int> read;
    int64_t bytes = 0;
    visit_loads(d, [&](Expr n) {
      if (read.insert(n->id).second) bytes += hinted_bytes(var(n->id), s_.graph.symbols);
    });
    const bool narrow = !read.empty() && 2 * bytes <= hinted_bytes(d.out, s_.graph.symbols);
    for (size_t reader : uses_.readers(id)) {
      const Item& item = s_.region.items[reader];
      if (!narrow || item.op || item.group.stages.size() != 1 || item.group.strategy) return nullptr;
      const Definition& sum = item.group.stages[0];
      bool product = sum.reduce == Reduce::add && !sum.scatter && !sum.products && sum.accumulator == DType::f32;
      visit_loads(sum, [&](Expr n) {
        if (n->id == id) product = product && is_product(sum, n) && lies_along_steps(sum, d, n);
      });
      if (!product) return nullptr;
    }
    return known->second = &d;
  }

  // Does somebody else hold it: a view, an output, a nested region?
  bool is_seen(int id) const {
    for (const auto& [view, source] : s_.region.views)
      if (view == id || source->id == id) return true;
    for (const auto& [view, source] : s_.prepare.views)
      if (view == id || source->id == id) return true;
    return s_.needed.in_memory.count(var(id)) > 0;
  }

  // Columns and steps go through the weight, rows do not, and these may be few.
  bool is_product(const Definition& d, Expr weight) const {
    bool rows = false, columns = false, steps = false;
    for (int k = 0; k < static_cast<int>(d.domain.size()); ++k) {
      const bool used = uses_axis(weight, k);
      rows |= k < d.kept() && !used;
      columns |= k < d.kept() && used;
      steps |= k >= d.kept() && used;
    }
    return rows && columns && steps &&
           !Bounds(s_.graph.symbols).proves_at_least(rows_of(d, weight->id), Expr(gpu_costs.rows_that_widen + 1));
  }

  // Are the numbers that lie side by side steps of one sum? A block reads them together then. Of columns that lie side by
  // side a thread would have one each, and most of the card nothing to do.
  bool lies_along_steps(const Definition& d, const Definition& weight, Expr read) const {
    int64_t most = -1;
    bool along = false;
    visit_loads(weight, [&](Expr n) {
      const int64_t bytes = hinted_bytes(var(n->id), s_.graph.symbols);
      if (bytes <= most || n->args.empty()) return;
      most = bytes, along = false;
      const Expr last = substitute_axes(n->args.back(), read->args);
      for (int k = 0; k < static_cast<int>(d.domain.size()); ++k)
        if (uses_axis(last, k)) along = k >= d.kept();
    });
    return along;
  }

  Expr rows_of(const Definition& d, int weight) const {
    Expr rows = 1, load;
    visit_loads(d, [&](Expr n) {
      if (n->id == weight) load = n;
    });
    for (int k = 0; k < d.kept(); ++k)
      if (!uses_axis(load, k)) rows = rows * d.domain[static_cast<size_t>(k)];
    return rows;
  }

  void compute_by_rows(const Definition& d, const Definition& weight, std::vector<Item>& items) {
    const int id = weight.out->id;
    gone_.insert(id);
    const Expr few = call(Fn::le, {rows_of(d, id), Expr(gpu_costs.rows_that_widen)});
    const auto only_where = [](Definition& part, Expr condition) {
      Expr& first = part.domain[0];
      first = select(condition, first, Expr(0));
    };
    Definition direct = d;
    replace_loads(direct, id, [&](const std::vector<Expr>& at) { return substitute_axes(weight.body, at); });
    merge_nodes(direct.nodes, weight.nodes);
    only_where(direct, few);
    items.push_back(item_of(std::move(direct)));
    items.back().group.strategy = std::make_shared<UntiledSum>();
    if (few.is_int(1)) return;
    const Expr many = logical_not(few);
    Definition widened = weight, product = d;
    widened.out = s_.graph.make_var(weight.out->type);
    only_where(widened, many);
    replace_loads(product, id, [&](const std::vector<Expr>& at) { return load(widened.out->id, widened.out->dtype(), at); });
    only_where(product, many);
    items.push_back(item_of(std::move(widened)));
    items.push_back(item_of(std::move(product)));
  }

  const Var* var(int id) const { return s_.graph.vars()[static_cast<size_t>(id)].get(); }

  RegionState& s_;
  const RegionUses uses_, prepared_;
  std::map<int, const Definition*> widenings_;  // by the id of what is made; null: it stays
  std::set<int> wide_, gone_;
};

}  // namespace

void keep_weights_narrow(RegionState& state) {
  if (state.top) NarrowWeights(state).run();
}

}  // namespace metac
