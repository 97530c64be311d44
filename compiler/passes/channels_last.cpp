#include "compiler/passes/channels_last.h"

#include <algorithm>

#include "compiler/kernel/lower_gpu.h"
#include "compiler/passes/layout_rules.h"

namespace metac {
namespace {

Layout channels_last(int rank) {
  Layout layout;
  for (int k = 0; k < rank; ++k)
    if (k != 1) layout.order.push_back(k);
  layout.order.push_back(1);
  return layout;
}

class ChannelsLast {
 public:
  ChannelsLast(Graph& graph, FusedRegion& region, FusedRegion& prepare, Layouts& layouts, const Needed& needed, const std::function<bool(const Var*)>& is_constant, const LoweringContext& context)
      : graph_(graph), region_(region), prepare_(prepare), layouts_(layouts), needed_(needed), is_constant_(is_constant), context_(context) {}

  std::vector<Var*> run() {
    if (!region_.repeats.empty()) return {};   // items there have numbers
    for (size_t k = 0; k < region_.items.size(); ++k)
      for (const Definition& d : region_.items[k].group.stages) makers_[d.out->id] = k;
    for (size_t k = 0; k < region_.items.size(); ++k) {
      const Group& group = region_.items[k].group;
      if (group.library_gradient) return {};
      if (auto found = convolution(region_.items[k])) convolutions_.push_back({k, *found});
    }
    if (convolutions_.empty()) return {};
    for (auto& [item, operands] : convolutions_) turn(item, operands);
    spread();
    insert_items();
    return std::move(prepared_);
  }

 private:
  struct Operands {
    int data, weights, residual;   // Var ids; -1: none
  };

  std::optional<Operands> convolution(const Item& item) const {
    if (item.op || item.group.stages.size() != 1 || !item.group.stages[0].reduce || item.group.stages[0].scatter) return std::nullopt;
    const Kernel kernel = lower_gpu(item.group, context_);
    if (!kernel.convolution || kernel.convolution->kind != ConvolutionKind::forward) return std::nullopt;
    const LibraryConvolution& c = *kernel.convolution;
    if (c.dtype == DType::f32 && !context_.tf32) return std::nullopt;
    const auto id = [&](int argument) { return argument < 0 ? -1 : kernel.arguments[static_cast<size_t>(argument)].var->id; };
    return Operands{id(c.data), id(c.weights), id(c.residual)};
  }

  bool must_be_plain(const Var* v) const {
    if (v->is_input || v->constant || needed_.in_memory.count(v) || !makers_.count(v->id)) return true;
    return std::any_of(region_.views.begin(), region_.views.end(), [&](const auto& view) { return view.second == v; });
  }

  static Definition copy_of(Var* to, const Var* from, const Definition& of) {
    Definition copy;
    copy.nodes = of.nodes;
    copy.out = to;
    copy.domain = to->shape();
    copy.out_index = identity_indices(to->rank());
    copy.body = load(from->id, from->dtype(), copy.out_index);
    return copy;
  }
  static Item item_of(Definition d) {
    Item item;
    item.group.stages = {std::move(d)};
    return item;
  }

  void turn(size_t item, const Operands& operands) {
    Definition& d = region_.items[item].group.stages[0];
    for (int id : {operands.data, operands.residual})
      if (id >= 0) read_from(d, id, operand(context_.var(id), item));
    const Shape& window = context_.var(operands.weights)->shape();
    if (std::any_of(window.begin() + 2, window.end(), [](Expr extent) { return !extent.is_int(1); })) read_from(d, operands.weights, operand(context_.var(operands.weights), item));
    if (layouts_.count(d.out->id)) return;
    if (must_be_plain(d.out)) {
      Var* own = graph_.make_var(d.out->type);
      after_[item].push_back(item_of(copy_of(d.out, own, d)));
      makers_[own->id] = item;
      d.out = own;
    }
    layouts_[d.out->id] = channels_last(d.out->rank());
  }

  static void read_from(Definition& d, int id, const Var* instead) {
    if (instead->id != id) replace_loads(d, id, [&](const std::vector<Expr>& at) { return load(instead->id, instead->dtype(), at); });
  }

  // The value with its channels last: itself, or a copy that is made once.
  const Var* operand(Var* v, size_t reader) {
    if (layouts_.count(v->id)) return v;
    if (!must_be_plain(v)) {
      layouts_[v->id] = channels_last(v->rank());
      return v;
    }
    auto [found, fresh] = copies_.emplace(v->id, nullptr);
    if (!fresh) return found->second;
    Var* own = found->second = graph_.make_var(v->type);
    layouts_[own->id] = channels_last(own->rank());
    if (is_constant_(v) && is_static(v->shape())) {
      prepare_.items.push_back(item_of(copy_of(own, v, region_.items[reader].group.stages[0])));
      prepared_.push_back(own);
    } else {
      before_[reader].push_back(item_of(copy_of(own, v, region_.items[reader].group.stages[0])));
    }
    return own;
  }

  void spread() {
    for (Item& item : region_.items) {
      if (item.op) continue;
      for (const Definition& d : item.group.stages) {
        if (layouts_.count(d.out->id) || must_be_plain(d.out) || d.scatter || item.group.row_blocks || item.group.internal.count(d.out->id)) continue;
        const bool rows = item.group.stages.size() != 1;
        const auto found = rows ? stored_as_read(d, layouts_) : stored_along_windows(d, layouts_);
        if (found && found->order == channels_last(d.out->rank()).order) layouts_[d.out->id] = channels_last(d.out->rank());
      }
    }
  }

  void insert_items() {
    std::vector<Item> all;
    for (size_t k = 0; k < region_.items.size(); ++k) {
      for (Item& item : before_[k]) all.push_back(std::move(item));
      all.push_back(std::move(region_.items[k]));
      for (Item& item : after_[k]) all.push_back(std::move(item));
    }
    region_.items = std::move(all);
  }

  Graph& graph_;
  FusedRegion &region_, &prepare_;
  Layouts& layouts_;
  const Needed& needed_;
  const std::function<bool(const Var*)>& is_constant_;
  const LoweringContext& context_;
  std::map<int, size_t> makers_;             // Var id -> item
  std::vector<std::pair<size_t, Operands>> convolutions_;
  std::map<int, Var*> copies_;               // Var id -> its copy
  std::map<size_t, std::vector<Item>> before_, after_;
  std::vector<Var*> prepared_;
};

}  // namespace

std::vector<Var*> store_channels_last(Graph& graph, FusedRegion& region, FusedRegion& prepare, Layouts& layouts, const Needed& needed,
                                      const std::function<bool(const Var*)>& is_constant, const LoweringContext& context) {
  return ChannelsLast(graph, region, prepare, layouts, needed, is_constant, context).run();
}

}  // namespace metac
