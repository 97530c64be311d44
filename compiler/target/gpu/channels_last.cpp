#include "compiler/target/gpu/channels_last.h"

#include <algorithm>

#include "compiler/target/gpu/strategies/gpu_strategies.h"
#include "compiler/target/gpu/strategies/lower_gpu.h"
#include "compiler/target/gpu/vendor/library_finish.h"
#include "compiler/target/layout_pass.h"
#include "compiler/tensor/layout_rules.h"

namespace metac {
namespace {

Layout channels_last(int rank) {
  Layout layout;
  for (int k = 0; k < rank; ++k)
    if (k != 1) layout.order.push_back(k);
  layout.order.push_back(1);
  return layout;
}

class ChannelsLast : private LayoutPass {
 public:
  ChannelsLast(RegionState& state, const LoweringContext& context) : LayoutPass(state), context_(context) {}

  std::vector<Var*> run() {
    if (!region_.repeats.empty()) return {};  // items there have numbers
    note_makers();
    for (const Item& item : region_.items)
      for (const Definition& d : item.group.stages)
        if (d.scatter) scattered_.insert(d.out->id);
    for (size_t k = 0; k < region_.items.size(); ++k)
      if (auto read = operands_of_convolution(region_.items[k])) convolutions_.push_back({k, *read});
    if (convolutions_.empty()) return {};
    for (auto& [item, read] : convolutions_) turn(item, read);
    spread();
    insert_items([this](size_t k, std::vector<Item>& all) { all.push_back(std::move(region_.items[k])); });
    return std::move(prepared_);
  }

 private:
  // The Vars (ids) that a convolution or a gradient of one reads, where a library is asked for it and computes on tensor
  // cores.
  std::optional<std::vector<int>> operands_of_convolution(const Item& item) const {
    if (item.op || item.group.stages.size() != 1 || !item.group.stages[0].reduce || item.group.stages[0].scatter)
      return std::nullopt;
    const Kernel kernel = lower_gpu(item.group, context_);
    if (!kernel.convolution) return std::nullopt;
    const LibraryConvolution& c = *kernel.convolution;
    if (c.dtype == DType::f32 && !context_.tf32) return std::nullopt;
    std::vector<int> read;
    for (const int argument : {c.data, c.weights, c.result, c.residual})
      if (argument >= 0 && !kernel.arguments[static_cast<size_t>(argument)].written)
        read.push_back(kernel.arguments[static_cast<size_t>(argument)].var->id);
    return read;
  }

  bool must_be_plain(const Var* v) const { return LayoutPass::must_be_plain(v) || scattered_.count(v->id) > 0; }

  void turn(size_t item, const std::vector<int>& read) {
    Group& group = region_.items[item].group;
    for (const int id : read) {
      const Var* own = operand(context_.var(id), item);
      if (own->id != id) read_instead(group, id, own);
    }
    Definition& d = group.stages[0];
    if (layouts_.count(d.out->id) || lies_the_same(d.out)) return;
    if (must_be_plain(d.out)) write_apart(group, item);
    layouts_[d.out->id] = channels_last(d.out->rank());
  }

  // With one channel, or one point, either order is the other.
  static bool lies_the_same(const Var* v) {
    const Shape& shape = v->shape();
    return shape[1].is_int(1) || std::all_of(shape.begin() + 2, shape.end(), [](Expr extent) { return extent.is_int(1); });
  }

  static void read_instead(Group& group, int id, const Var* instead) {
    const auto value = [&](const std::vector<Expr>& at) { return load(instead->id, instead->dtype(), at); };
    replace_loads(group.stages[0], id, value);
    change_gradient(group, [&](LibraryGradient& gradient) {
      replace_loads(gradient.definition, id, value);
      rename(gradient, id, instead->id);
    });
  }

  // Gives the group another strategy where it is a library's gradient.
  static void change_gradient(Group& group, const std::function<void(LibraryGradient&)>& change) {
    const auto* gradient = strategy_as<LibraryGradient>(group);
    if (!gradient) return;
    auto changed = std::make_shared<LibraryGradient>(*gradient);
    change(*changed);
    group.strategy = std::move(changed);
  }

  static void rename(LibraryGradient& gradient, int from, int to) {
    for (int* operand : {&gradient.convolution.data, &gradient.convolution.weights, &gradient.convolution.result})
      if (*operand == from) *operand = to;
  }

  // What must be row-major is written by a second kernel, with all that a library does not do (an optimiser's update); the
  // sums have a Var of their own.
  void write_apart(Group& group, size_t item) {
    Definition& d = group.stages[0];
    Var* own = graph_.make_var(d.out->type);
    makers_[own->id] = item;
    const auto* gradient = strategy_as<LibraryGradient>(group);
    if (!gradient || !gradient->convolution.sums_only) {
      after_[item].push_back(item_of(copy_of(own, d.out, d.nodes)));
    } else {
      Definition rest = finishing(d);
      replace_loads(rest, d.out->id, [&](const std::vector<Expr>& at) { return load(own->id, own->dtype(), at); });
      after_[item].push_back(item_of(std::move(rest)));
      const Expr sum = cast(load(reduced_value, d.accumulator, {}), own->dtype());
      d.epilogue = sum;
      change_gradient(group, [&](LibraryGradient& whole) {
        whole.definition.epilogue = sum;
        whole.convolution.sums_only = false;
      });
    }
    change_gradient(group, [&](LibraryGradient& whole) {
      rename(whole, d.out->id, own->id);
      whole.definition.out = own;
    });
    d.out = own;
  }

  // The value with its channels last: itself, or a copy that is made once.
  const Var* operand(Var* v, size_t reader) {
    if (layouts_.count(v->id) || lies_the_same(v)) return v;
    if (!must_be_plain(v)) {
      layouts_[v->id] = channels_last(v->rank());
      return v;
    }
    auto [found, fresh] = copies_.emplace(v->id, nullptr);
    if (!fresh) return found->second;
    Var* own = found->second = graph_.make_var(v->type);
    layouts_[own->id] = channels_last(own->rank());
    Definition copy = copy_of(v, own, region_.items[reader].group.stages[0].nodes);
    if (is_constant_(v) && is_static(v->shape()))
      prepare(std::move(copy));
    else
      before_[reader].push_back(item_of(std::move(copy)));
    return own;
  }

  void spread() {
    for (Item& item : region_.items) {
      if (item.op) continue;
      for (const Definition& d : item.group.stages) {
        if (layouts_.count(d.out->id) || must_be_plain(d.out) || d.scatter || strategy_as<Attention>(item.group) ||
            item.group.internal.count(d.out->id))
          continue;
        const bool rows = item.group.stages.size() != 1;
        const auto found = rows ? stored_as_read(d, layouts_) : stored_along_windows(d, layouts_);
        if (found && found->order == channels_last(d.out->rank()).order) layouts_[d.out->id] = channels_last(d.out->rank());
      }
    }
  }

  const LoweringContext& context_;
  std::set<int> scattered_;                                        // Vars (ids) that scatters make
  std::vector<std::pair<size_t, std::vector<int>>> convolutions_;  // item, what it reads
  std::map<int, Var*> copies_;                                     // Var id -> its copy
};

}  // namespace

std::vector<Var*> store_channels_last(RegionState& state, const LoweringContext& context) {
  return ChannelsLast(state, context).run();
}

}  // namespace metac
