#include "compiler/target/cpu/group_statistics.h"

#include <algorithm>

#include "compiler/ir/hints.h"
#include "compiler/ir/walks.h"
#include "compiler/machine/cpu_costs.h"
#include "compiler/region/fusion/fuse_rows.h"
#include "compiler/region/fusion/fusion_facts.h"
#include "compiler/support/checked.h"

namespace metac {
namespace {

bool divides(Expr e, Fn fn) { return e->kind == ExprKind::call && e->fn == fn && e->dtype == DType::i64 && !e->has_load; }

// A sum whose channel is of*size + in: axes of its domain.
struct ChannelGroup {
  int of = -1, in = -1;
  int64_t size = 0;
};

// The two kernels of a sum.
struct BySteps {
  Definition parts, total;
};

class GroupStatistics {
 public:
  explicit GroupStatistics(RegionState& state) : graph_(state.graph), state_(state) {}

  void run() {
    FusedRegion& region = state_.region;
    std::vector<Item> before = std::move(region.items);
    region.items.clear();
    note_readers(before);
    bool any = false;
    for (Item& item : before) {
      if (item.op || item.group.strategy) {
        region.items.push_back(std::move(item));
      } else if (!can_split(item.group)) {
        for (Definition& d : item.group.stages) read_by_channels(d);
        region.items.push_back(std::move(item));
      } else {
        for (Definition& d : item.group.stages) split(d);
        any = true;
      }
    }
    if (any) fuse_rows(region, state_.needed.in_memory, graph_.symbols);
  }

 private:
  int64_t lanes() const { return state_.options.cpu.vector_bytes / 4; }

  // Vars that must stay as they are: others than kernels without a strategy read them.
  void note_readers(const std::vector<Item>& items) {
    for (const Var* var : state_.needed.in_memory) held_.insert(var->id);
    for (auto& [view, source] : state_.region.views) held_.insert(source->id);
    for (const Item& item : items)
      if (item.group.strategy)
        for (const Definition& d : item.group.stages) visit_loads(d, [&](Expr n) { held_.insert(n->id); });
  }

  // Every sum of the kernel is by groups of channels.
  bool can_split(const Group& group) const {
    bool any = false;
    for (const Definition& d : group.stages) {
      if (d.scatter) return false;
      if (!d.reduce) continue;
      if (held_.count(d.out->id) || d.out->exchanged >= 0 || d.out->stop_fuse || !group_of(d)) return false;
      any = true;
    }
    return any;
  }

  // Many points of few channels: else lanes run along the channels of one group, or there is nothing to win.
  std::optional<ChannelGroup> group_of(const Definition& d) const {
    if (*d.reduce != Reduce::add || d.accumulator != DType::f32 || bool(d.products) || is_contraction(d))
      return std::nullopt;
    int64_t points = 1;
    for (size_t k = static_cast<size_t>(d.kept()); k < d.domain.size(); ++k)
      points = saturating_mul(points, hinted_value(d.domain[k], graph_.symbols));
    std::optional<ChannelGroup> found;
    visit_loads(d, [&](Expr n) {
      for (Expr index : n->args)
        if (auto group = channel_of(d, index); group && !found && points / group->size >= cpu_costs.points_of_statistics)
          found = group;
    });
    if (!found || !stands_alone(d, found->of)) return std::nullopt;
    return found;
  }

  // of*size + in, of kept and in summed.
  std::optional<ChannelGroup> channel_of(const Definition& d, Expr index) const {
    const Linear form = linear_form(index);
    if (form.constant != 0 || form.terms.size() != 2) return std::nullopt;
    auto [of, size] = form.terms[0];
    auto [in, one] = form.terms[1];
    if (of->kind != ExprKind::axis || in->kind != ExprKind::axis || one != 1 || of->id >= d.kept() || in->id < d.kept())
      return std::nullopt;
    const Expr groups = d.domain[static_cast<size_t>(of->id)];
    if (!d.domain[static_cast<size_t>(in->id)].is_int(size) || size >= lanes() || !groups.if_int()) return std::nullopt;
    if (saturating_mul(groups.as_int(), size) < lanes()) return std::nullopt;
    return ChannelGroup{of->id, in->id, size};
  }

  // One axis of the result is this one as it is, the others do not use it.
  static bool stands_alone(const Definition& d, int of) {
    int alone = 0;
    for (Expr e : d.out_index) {
      if (e == axis(of))
        ++alone;
      else if (uses_axis(e, of))
        return false;
    }
    return alone == 1;
  }

  void split(Definition d) {
    std::optional<BySteps> steps;
    if (d.reduce) steps = by_steps(d, *group_of(d));
    if (!steps) {
      read_by_channels(d);
      state_.region.items.push_back(item_of(std::move(d)));
      return;
    }
    read_by_channels(steps->parts);
    read_by_channels(steps->total);
    state_.region.items.push_back(item_of(std::move(steps->parts)));
    state_.region.items.push_back(item_of(std::move(steps->total)));
  }

  // Empty: a channel is read otherwise, too.
  std::optional<BySteps> by_steps(const Definition& d, const ChannelGroup& group) {
    const size_t of = static_cast<size_t>(group.of), in = static_cast<size_t>(group.in);
    const Expr channel = axis(group.of), size = group.size;
    Definition parts = d;
    parts.domain[of] = d.domain[of] * size;
    parts.domain.erase(parts.domain.begin() + static_cast<int64_t>(in));
    --parts.reduced;
    std::vector<Expr> renamed;
    for (size_t k = 0; k < d.domain.size(); ++k)
      renamed.push_back(k == of   ? floor_div(channel, size)
                        : k == in ? floor_mod(channel, size)
                                  : axis(static_cast<int>(k > in ? k - 1 : k)));
    parts.body = substitute_axes(d.body, renamed);
    const Shape rows(parts.domain.begin(), parts.domain.begin() + parts.kept());
    parts.out_index = identity_indices(parts.kept());
    parts.epilogue = load(reduced_value, DType::f32, {});
    simplify(parts, graph_.symbols);
    if (any_of(parts.body, [&](Expr e) { return divides(e, Fn::floor_mod) && uses_axis(e, group.of); })) return std::nullopt;
    parts.out = graph_.make_var({TypeKind::tensor, DType::f32, rows});

    Definition total = d;
    total.domain = rows;
    total.domain.push_back(size);
    total.reduced = 1;
    std::vector<Expr> at = identity_indices(parts.kept());
    at[of] = floor_div(channel, size) * size + axis(d.kept());
    total.body = load(parts.out->id, DType::f32, at);
    std::vector<Expr> of_group = identity_indices(d.kept());
    of_group[of] = floor_div(channel, size);
    total.epilogue = substitute_axes(d.epilogue, of_group);
    Type type = d.out->type;
    const size_t position =
        static_cast<size_t>(std::find(d.out_index.begin(), d.out_index.end(), channel) - d.out_index.begin());
    type.shape[position] = rows[of];
    total.out = graph_.make_var(type);
    simplify(total, graph_.symbols);
    by_channel_[d.out->id] = {total.out, position, group.size};
    return BySteps{std::move(parts), std::move(total)};
  }

  // Reads what is stored for each channel now, and parameters likewise.
  void read_by_channels(Definition& d) {
    bool changed = false;
    const auto stored = [&](Expr n, const std::vector<Expr>& indices) -> Expr {
      auto found = by_channel_.find(n->id);
      if (found == by_channel_.end()) return d.is_plain() ? parameter(d, n, indices) : Expr();
      changed = true;
      std::vector<Expr> at = indices;
      Expr& index = at[found->second.position];
      const Expr size = found->second.size;
      index = divides(index, Fn::floor_div) && index->args[1] == size ? index->args[0] : index * size;
      return load(found->second.var->id, n->dtype, at);
    };
    d.body = rewrite_loads(d.body, stored);
    if (d.epilogue) d.epilogue = rewrite_loads(d.epilogue, stored);
    if (changed) simplify(d, graph_.symbols);
  }

  // A parameter that is read at floor(i/size) of one axis and nowhere else, stored for each i.
  Expr parameter(const Definition& d, Expr n, const std::vector<Expr>& indices) {
    const Var* var = graph_.vars()[static_cast<size_t>(n->id)].get();
    if (!state_.is_constant(var) || n->dtype != DType::f32) return {};
    Expr divided;
    for (Expr index : indices) {
      if (index.if_int()) continue;
      if (bool(divided) || !divides(index, Fn::floor_div) || index->args[0]->kind != ExprKind::axis) return {};
      if (!index->args[1].if_int()) return {};
      divided = index;
    }
    if (!divided) return {};
    const int channel = divided->args[0]->id;
    const Expr extent = d.domain[static_cast<size_t>(channel)];
    constexpr int64_t most_channels = 1 << 16;
    if (!extent.if_int() || extent.as_int() > most_channels) return {};
    const Expr own = rewrite(load(n->id, n->dtype, indices), [&](Expr e) { return e == axis(channel) ? axis(0) : Expr(); });
    auto [found, fresh] = parameters_.emplace(std::pair(own.node(), extent.as_int()), nullptr);
    if (fresh) {
      Definition spread;
      spread.out = found->second = graph_.make_var({TypeKind::tensor, n->dtype, {extent}});
      spread.domain = {extent};
      spread.out_index = identity_indices(1);
      spread.body = own;
      spread.nodes = d.nodes;
      state_.region.items.push_back(item_of(std::move(spread)));
    }
    return load(found->second->id, n->dtype, {axis(channel)});
  }

  struct ByChannel {
    const Var* var = nullptr;
    size_t position = 0;  // of the channel among its axes
    int64_t size = 0;     // channels of a group
  };

  Graph& graph_;
  RegionState& state_;
  std::set<int> held_;
  std::map<int, ByChannel> by_channel_;  // by the id of what was one value for a group
  std::map<std::pair<const ExprNode*, int64_t>, Var*> parameters_;
};

}  // namespace

void group_statistics(RegionState& state) { GroupStatistics(state).run(); }

}  // namespace metac
