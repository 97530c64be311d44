#include "compiler/target/cpu/split_statistics.h"

#include <algorithm>
#include <set>

#include "compiler/loops/loop_transforms.h"
#include "compiler/machine/cpu_costs.h"
#include "compiler/support/checked.h"
#include "compiler/target/cpu/strategies/cpu_strategies.h"
#include "compiler/tensor/axes.h"

namespace metac {
namespace {

// A reduced axis of which a part has `rest` iterations.
struct CutAxis {
  int axis = 0;
  int64_t parts = 1, rest = 1;
  bool operator==(const CutAxis&) const = default;
};

// How a sum is cut, outermost axis of the memory first.
struct Cut {
  int channel = 0;
  std::vector<CutAxis> axes;

  bool is_cut(size_t k) const { return axes[k].parts > 1; }
};

class StatisticsSplitter {
 public:
  StatisticsSplitter(Graph& graph, FusedRegion& region, const Layouts& layouts, int64_t cache_bytes)
      : graph_(graph), region_(region), layouts_(layouts), cache_bytes_(cache_bytes) {}

  void run() {
    std::vector<Item> before = std::move(region_.items);
    region_.items.clear();
    for (Item& item : before) {
      if (item.op) barrier_ = region_.items.size() + 1;  // host steps may read anything
      if (can_split(item))
        split(item.group);
      else
        region_.items.push_back(std::move(item));
    }
  }

 private:
  bool can_split(const Item& item) const {
    const Group& group = item.group;
    if (item.op || group.strategy || group.shared > 1 || group.stages.empty()) return false;
    bool any = false;
    for (const Definition& d : group.stages) {
      if (d.scatter || !is_static(d.domain)) return false;
      const bool sum = cut_of(d).has_value();
      any |= sum;
      if (!sum && is_large(d) && (d.reduce || group.internal.count(d.out->id))) return false;
    }
    return any;
  }

  bool is_large(const Definition& d) const { return element_count(d.domain).as_int() * 4 >= cache_bytes_; }

  // Is this a sum over the points of images, whose channels lie side by side? Then how to cut it.
  std::optional<Cut> cut_of(const Definition& d) const {
    constexpr int64_t fewest_in_part = 4;
    if (!d.reduce || *d.reduce != Reduce::add || d.accumulator != DType::f32 || !is_large(d)) return std::nullopt;
    Cut cut{-1, {}};
    for (int k = 0; k < d.kept(); ++k) {
      if (d.domain[static_cast<size_t>(k)].is_int(1)) continue;
      if (cut.channel >= 0) return std::nullopt;
      cut.channel = k;
    }
    if (cut.channel < 0) return std::nullopt;
    const int64_t channels = d.domain[static_cast<size_t>(cut.channel)].as_int();
    if (element_count(d.domain).as_int() < channels * cpu_costs.points_of_statistics) return std::nullopt;
    const Bounds bounds(graph_.symbols, d.domain);
    Expr first;
    bool good = true;
    visit(d.body, [&](Expr n) {
      if (n->kind != ExprKind::load || !std::any_of(n->args.begin(), n->args.end(), [&](Expr e) { return is_summed(d, e); }))
        return;
      const Expr at = simplify(address_of(n), bounds), step = stride_of(at, cut.channel);
      const bool over_images = n->args[0]->kind == ExprKind::axis && is_summed(d, n->args[0]);
      good &= over_images && bool(step) && step.is_int(1) && n->dtype == DType::f32;
      if (!first) first = at;
    });
    if (!good || !first) return std::nullopt;
    for (int k = d.kept(); k < static_cast<int>(d.domain.size()); ++k) {
      const Expr step = stride_of(first, k);
      if (!step || !step.if_int() || step.as_int() < channels) return std::nullopt;
      cut.axes.push_back({k, 1, d.domain[static_cast<size_t>(k)].as_int()});
    }
    std::stable_sort(cut.axes.begin(), cut.axes.end(), [&](const CutAxis& a, const CutAxis& b) {
      return stride_of(first, a.axis).as_int() > stride_of(first, b.axis).as_int();
    });
    // Of each operand an eighth of the cache.
    int64_t inside = channels * 4, points = 1;
    for (size_t k = cut.axes.size(); k-- > 0;) {
      CutAxis& a = cut.axes[k];
      const int64_t extent = a.rest;
      const int64_t rest = std::max<int64_t>(1, largest_divisor(extent, cache_bytes_ / 8 / inside));
      a = {a.axis, extent / rest, rest};
      inside = saturating_mul(inside, extent);
      points = saturating_mul(points, rest);
    }
    return points >= fewest_in_part ? std::optional(cut) : std::nullopt;
  }

  static bool is_summed(const Definition& d, Expr e) {
    return any_of(e, [&](Expr n) {
      return n->kind == ExprKind::axis && n->id >= d.kept() && !d.domain[static_cast<size_t>(n->id)].is_int(1);
    });
  }

  Expr address_of(Expr load) const {
    auto found = layouts_.find(load->id);
    return storage_address(graph_.vars()[static_cast<size_t>(load->id)]->shape(),
                           found == layouts_.end() ? Layout() : found->second, load->args);
  }

  // ---- cutting ----
  void split(const Group& group) {
    const size_t begin = region_.items.size();
    std::map<int, Mean> means;
    size_t rows = 0;  // item of what is one value of a channel; before `begin`: none
    bool has_rows = false;
    const auto add_row = [&](const Definition& d, size_t after) {
      if (!has_rows || rows < after) {
        region_.items.emplace_back();
        region_.items.back().group.shared = group.shared;
        rows = region_.items.size() - 1, has_rows = true;
      }
      region_.items[rows].group.stages.push_back(d);
    };
    for (const Definition& d : group.stages) {
      if (auto cut = cut_of(d)) {
        Definition total = d;
        const size_t at = add_sum(d, *cut, total, means);
        add_row(total, at);
      } else if (is_large(d)) {
        region_.items.emplace_back();
        region_.items.back().group.stages = {d};
      } else {
        add_row(d, begin);
      }
    }
    // What only one of the kernels needs stays inside of it.
    for (size_t k = begin; k < region_.items.size(); ++k) {
      Group& own = region_.items[k].group;
      for (const Definition& d : own.stages)
        if (group.internal.count(d.out->id) && readers(d.out, begin) == 1 && reads(own, d.out))
          own.internal.insert(d.out->id);
      if (own.stages.size() == 1) own.shared = strategy_as<SumsByPoints>(own) ? own.shared : 0;
    }
  }

  struct Mean {
    Expr of;                  // what was summed
    Var* of_parts = nullptr;  // the parts' means
    int64_t count = 0;        // points of a part
    size_t item = 0;          // the kernel that makes them
  };

  // Adds the parts' kernel of the sum, or a stage to one that is there; `total` becomes what adds them up. Returns the
  // kernel's item.
  size_t add_sum(const Definition& d, const Cut& cut, Definition& total, std::map<int, Mean>& means) {
    const std::vector<Expr> moved = moved_axes(d, cut);
    if (const Mean* mean = mean_in(d, means)) {
      // (x - m)^2: of each part around its own mean, and how far that is off.
      const Expr x = deviation(d)->args[0], m = deviation(d)->args[1];
      const Expr around =
          substitute_axes(x, moved) - load(mean->of_parts->id, DType::f32, identity_indices(mean->of_parts->rank()));
      const Definition parts = parts_of(d, cut, around * around);
      region_.items[mean->item].group.stages.push_back(parts);
      become_total(total, cut, parts.out);
      const Expr off = load(mean->of_parts->id, DType::f32, total_indices(d, cut)) - m;
      total.body = total.body + float_constant(static_cast<double>(mean->count), DType::f32) * (off * off);
      simplify(total, graph_.symbols);
      return mean->item;
    }
    Definition parts = parts_of(d, cut, substitute_axes(d.body, moved));
    const size_t item = place(parts, cut);
    become_total(total, cut, parts.out);
    if (is_mean(d)) means[d.out->id] = add_means(d, cut, parts.out, item);
    return item;
  }

  Mean add_means(const Definition& d, const Cut& cut, const Var* sums, size_t item) {
    Mean mean{d.body, graph_.make_var(sums->type), 1, item};
    for (const CutAxis& a : cut.axes) mean.count *= a.rest;
    Definition own;
    own.out = mean.of_parts;
    own.domain = own.out->shape();
    own.out_index = identity_indices(own.out->rank());
    own.body = load(sums->id, DType::f32, own.out_index) / float_constant(static_cast<double>(mean.count), DType::f32);
    own.nodes = d.nodes;
    region_.items[item].group.stages.push_back(own);
    return mean;
  }

  // Where d's axes are in the sums of the parts: [parts..., channel, rests...].
  std::vector<Expr> moved_axes(const Definition& d, const Cut& cut) const {
    std::vector<Expr> moved(d.domain.size(), Expr(0));
    int part = 0, rest = count_cut(cut) + 1;
    moved[static_cast<size_t>(cut.channel)] = axis(count_cut(cut));
    for (size_t k = 0; k < cut.axes.size(); ++k) {
      const CutAxis& a = cut.axes[k];
      Expr at = 0;
      if (cut.is_cut(k)) at = axis(part++) * Expr(a.rest);
      if (a.rest > 1) at = at + axis(rest++);
      moved[static_cast<size_t>(a.axis)] = at;
    }
    return moved;
  }

  static int count_cut(const Cut& cut) {
    int count = 0;
    for (size_t k = 0; k < cut.axes.size(); ++k) count += cut.is_cut(k);
    return count;
  }

  // `body` is over the axes of the parts.
  Definition parts_of(const Definition& d, const Cut& cut, Expr body) {
    Definition out;
    Type type{TypeKind::tensor, DType::f32, {}};
    for (size_t k = 0; k < cut.axes.size(); ++k)
      if (cut.is_cut(k)) type.shape.push_back(cut.axes[k].parts);
    type.shape.push_back(d.domain[static_cast<size_t>(cut.channel)]);
    out.out = graph_.make_var(type);
    out.domain = type.shape;
    for (const CutAxis& a : cut.axes)
      if (a.rest > 1) out.domain.push_back(a.rest), ++out.reduced;
    out.reduce = Reduce::add;
    out.body = body;
    out.out_index = identity_indices(out.out->rank());
    out.epilogue = load(reduced_value, DType::f32, {});
    out.nodes = d.nodes;
    simplify(out, graph_.symbols);
    return out;
  }

  // In what adds up the parts, whose axes are d's kept ones and the parts.
  static std::vector<Expr> total_indices(const Definition& d, const Cut& cut) {
    std::vector<Expr> at;
    for (int k = 0; k < count_cut(cut); ++k) at.push_back(axis(d.kept() + k));
    at.push_back(axis(cut.channel));
    return at;
  }

  void become_total(Definition& total, const Cut& cut, const Var* parts) const {
    total.body = load(parts->id, DType::f32, total_indices(total, cut));
    total.domain.resize(static_cast<size_t>(total.kept()));
    total.reduced = count_cut(cut);
    for (size_t k = 0; k < cut.axes.size(); ++k)
      if (cut.is_cut(k)) total.domain.push_back(cut.axes[k].parts);
    simplify(total, graph_.symbols);
  }

  // ---- means ----
  static bool is_mean(const Definition& d) {
    if (d.body->kind != ExprKind::load || d.epilogue->kind != ExprKind::call || d.epilogue->fn != Fn::div) return false;
    const Expr sum = d.epilogue->args[0], count = d.epilogue->args[1];
    int64_t points = 1;
    for (size_t k = static_cast<size_t>(d.kept()); k < d.domain.size(); ++k)
      points = saturating_mul(points, d.domain[k].as_int());
    return sum->kind == ExprKind::load && sum->id == reduced_value && count->kind == ExprKind::float_constant &&
           count->float_value == static_cast<double>(points);
  }

  // The x - m of a body (x - m)^2; empty: it is something else.
  static Expr deviation(const Definition& d) {
    const Expr e = d.body;
    if (e->kind != ExprKind::call || e->fn != Fn::mul || e->args[0] != e->args[1]) return {};
    const Expr x = e->args[0];
    return x->kind == ExprKind::call && x->fn == Fn::sub && x->args[0]->kind == ExprKind::load &&
                   x->args[1]->kind == ExprKind::load
               ? x
               : Expr();
  }

  static const Mean* mean_in(const Definition& d, const std::map<int, Mean>& means) {
    const Expr x = deviation(d);
    if (!x) return nullptr;
    auto found = means.find(x->args[1]->id);
    return found != means.end() && found->second.of == x->args[0] ? &found->second : nullptr;
  }

  // ---- kernels ----
  // A kernel of parts that are cut alike and read some of the same data takes the sum, if all that it reads is there by
  // then. Where it has this very sum, `parts` becomes that.
  size_t place(Definition& parts, const Cut& cut) {
    const Shape of_parts(parts.domain.begin(), parts.domain.begin() + parts.kept());
    size_t earliest = barrier_;
    for (size_t k = earliest; k < region_.items.size(); ++k)
      if (makes_what_is_read(region_.items[k].group, parts)) earliest = k + 1;
    for (size_t k = region_.items.size(); k-- > earliest;) {
      Group& group = region_.items[k].group;
      if (!sums_of_parts_.count(k) ||
          Shape(group.stages[0].domain.begin(), group.stages[0].domain.begin() + group.stages[0].kept()) != of_parts)
        continue;
      if (!shares_data(group, parts)) continue;
      const auto same = std::find_if(group.stages.begin(), group.stages.end(), [&](const Definition& stage) {
        return stage.body == parts.body && stage.domain == parts.domain;
      });
      if (same == group.stages.end())
        group.stages.push_back(parts);
      else
        parts = *same;
      return k;
    }
    region_.items.emplace_back();
    Group& group = region_.items.back().group;
    group.stages = {parts};
    group.shared = count_cut(cut);
    group.strategy = std::make_shared<SumsByPoints>();
    sums_of_parts_.insert(region_.items.size() - 1);
    return region_.items.size() - 1;
  }

  bool makes_what_is_read(const Group& group, const Definition& d) const {
    bool found = false;
    visit_loads(d, [&](Expr n) {
      const auto view = region_.views.find(n->id);
      const int id = view == region_.views.end() ? n->id : view->second->id;
      for (const Definition& stage : group.stages) found |= stage.out->id == id;
    });
    return found;
  }

  static bool shares_data(const Group& group, const Definition& d) {
    std::set<const ExprNode*> read;
    for (const Definition& stage : group.stages)
      if (stage.reduce) visit_loads(stage, [&](Expr n) { read.insert(n.node()); });
    bool shared = false;
    visit_loads(d,
                [&](Expr n) { shared |= n->id >= 0 && n->args.size() > 1 && read.count(n.node()) > 0 && is_summed(d, n); });
    return shared;
  }

  static bool reads(const Group& group, const Var* var) {
    return std::any_of(group.stages.begin(), group.stages.end(), [&](const Definition& d) {
      bool found = false;
      visit_loads(d, [&](Expr n) { found |= n->id == var->id; });
      return found;
    });
  }

  size_t readers(const Var* var, size_t begin) const {
    size_t count = 0;
    for (size_t k = begin; k < region_.items.size(); ++k) count += reads(region_.items[k].group, var);
    return count;
  }

  Graph& graph_;
  FusedRegion& region_;
  const Layouts& layouts_;
  const int64_t cache_bytes_;
  size_t barrier_ = 0;              // kernels before it stay as they are
  std::set<size_t> sums_of_parts_;  // items
};

}  // namespace

void split_statistics(Graph& graph, FusedRegion& region, const Layouts& layouts, int64_t cache_bytes) {
  StatisticsSplitter(graph, region, layouts, cache_bytes).run();
}

}  // namespace metac
