#include "compiler/target/gpu/split_reductions.h"

#include <algorithm>

#include "compiler/loops/loop_transforms.h"
#include "compiler/machine/gpu_costs.h"
#include "compiler/support/checked.h"
#include "compiler/target/gpu/strategies/gpu_strategies.h"
#include "compiler/target/gpu/strategies/lower_gpu.h"
#include "compiler/tensor/axes.h"

namespace metac {
namespace {

// A reduced axis of which a part has `rest` iterations; the last part may have fewer.
struct CutAxis {
  int axis = 0;
  int64_t parts = 1, rest = 1;
};

int64_t size_of_axes(const Definition& d, int begin, int end) {
  int64_t size = 1;
  for (int k = begin; k < end; ++k) size = saturating_mul(size, d.domain[static_cast<size_t>(k)].as_int());
  return size;
}

// Outermost axes first, in equal parts where that gives about as many as are wanted; else the longest axis with a shorter
// last part.
std::vector<CutAxis> cut_axes(const Definition& d, int64_t wanted) {
  std::vector<CutAxis> cut;
  int64_t found = 1;
  int longest = d.kept();
  for (int k = d.kept(); k < static_cast<int>(d.domain.size()); ++k) {
    const int64_t extent = d.domain[static_cast<size_t>(k)].as_int(),
                  parts = std::max<int64_t>(1, largest_divisor(extent, wanted / found));
    if (extent > d.domain[static_cast<size_t>(longest)].as_int()) longest = k;
    if (parts < 2) continue;
    cut.push_back({k, parts, extent / parts});
    found *= parts;
  }
  const int64_t extent = d.domain[static_cast<size_t>(longest)].as_int();
  if (found * 2 > wanted || extent < wanted) return cut;
  const int64_t rest = (extent + wanted - 1) / wanted;
  return {{longest, (extent + rest - 1) / rest, rest}};
}

struct TwoPasses {
  Definition parts, total;
};

class ReductionSplitter {
 public:
  ReductionSplitter(Graph& graph, FusedRegion& region, const LoweringContext& context)
      : graph_(graph), region_(region), context_(context) {}

  void run() {
    if (!region_.repeats.empty()) return;  // items there have numbers
    std::vector<Item> before = std::move(region_.items);
    region_.items.clear();
    for (Item& item : before) {
      if (item.op || !may_split(item.group))
        region_.items.push_back(std::move(item));
      else if (item.group.stages.size() == 1)
        split_alone(std::move(item));
      else if (has_few_long_rows(item.group))
        split_rows(item.group, gpu_costs.part_of_block);
      else if (has_rows_across(item.group))
        split_rows(item.group, gpu_costs.long_across);
      else
        region_.items.push_back(std::move(item));
    }
  }

 private:
  static bool may_split(const Group& group) {
    return !strategy_as<Attention>(group) && !strategy_as<Beside>(group) &&
           std::all_of(group.stages.begin(), group.stages.end(),
                       [](const Definition& d) { return !d.scatter && is_static(d.domain) && is_static(d.out->shape()); });
  }

  static Group alone(const Definition& d) {
    Group group;
    group.stages = {d};
    return group;
  }

  void add(const Definition& d) { region_.items.emplace_back().group = alone(d); }

  void split_alone(Item item) {
    const auto passes = two_passes(item.group);
    if (!passes) return region_.items.push_back(std::move(item));
    add(passes->parts);
    add(passes->total);
  }

  // ---- one reduction ----
  std::optional<TwoPasses> two_passes(const Group& group) {
    const Definition& d = group.stages[0];
    if (!d.reduce || group.shared != 0) return std::nullopt;
    const int64_t results = size_of_axes(d, 0, d.kept()),
                  length = size_of_axes(d, d.kept(), static_cast<int>(d.domain.size()));
    if (length < gpu_costs.least_parts * gpu_costs.part_of_thread || results == 0 ||
        results > gpu_costs.split_tiles * gpu_costs.split_tile)
      return std::nullopt;
    const Kernel kernel = lower_gpu(group, context_);
    if (!kernel.products.empty() || kernel.convolution) return std::nullopt;
    if (lower_gpu_contraction(group, context_)) {
      const int64_t tiles = (results + gpu_costs.split_tile - 1) / gpu_costs.split_tile,
                    bounded = elements_read(d) / gpu_costs.part_of_operands / results;  // what the parts cost in memory
      return in_parts(d, std::min({gpu_costs.split_tiles / tiles, length / gpu_costs.part_of_tile, bounded}));
    }
    const int64_t of_threads = std::min(gpu_costs.split_threads / results, length / gpu_costs.part_of_thread);
    if (is_thread_each(kernel)) return in_parts(d, of_threads);
    if (results >= gpu_costs.few_results)  // a warp's threads may have neighbours
      if (auto passes = in_parts(d, of_threads); passes && is_thread_each(lower_gpu(alone(passes->parts), context_)))
        return passes;
    return in_parts(d, results > gpu_costs.split_blocks / gpu_costs.least_parts
                           ? 1
                           : std::min(gpu_costs.split_blocks / results, length / gpu_costs.part_of_block));
  }

  static bool is_thread_each(const Kernel& kernel) {
    return !kernel.root.loops.empty() && kernel.root.loops[0].kind == LoopKind::grid;
  }

  int64_t elements_read(const Definition& d) const {
    int64_t elements = 0;
    visit_loads(d, [&](Expr n) {
      const Expr count = element_count(context_.var(n->id)->shape());
      elements += count.if_int() ? count.as_int() : 0;
    });
    return elements;
  }

  std::optional<TwoPasses> in_parts(const Definition& d, int64_t wanted) {
    if (wanted < gpu_costs.least_parts) return std::nullopt;
    const std::vector<CutAxis> cut = cut_axes(d, wanted);
    int64_t parts = 1;
    for (const CutAxis& a : cut) parts *= a.parts;
    if (parts < gpu_costs.least_parts) return std::nullopt;
    TwoPasses out{parts_of(d, cut), d};
    const Var* made = out.parts.out;
    Definition& total = out.total;
    total.domain.resize(static_cast<size_t>(d.kept()));
    total.reduced = static_cast<int>(cut.size());
    std::vector<Expr> at;
    for (const CutAxis& a : cut) {
      at.push_back(axis(static_cast<int>(total.domain.size())));
      total.domain.push_back(a.parts);
    }
    for (int k = 0; k < d.kept(); ++k) at.push_back(axis(k));
    total.body = load(made->id, d.accumulator, at);
    simplify(total, graph_.symbols);
    return out;
  }

  // Axes: the parts, what is kept, the rest of what is reduced.
  Definition parts_of(const Definition& d, const std::vector<CutAxis>& cut) {
    const int count = static_cast<int>(cut.size());
    Definition parts = d;
    std::vector<Expr> moved;
    Expr inside = bool_constant(true);
    for (int k = 0; k < static_cast<int>(d.domain.size()); ++k) moved.push_back(axis(count + k));
    for (int k = 0; k < count; ++k) {
      const CutAxis& a = cut[static_cast<size_t>(k)];
      const Expr extent = d.domain[static_cast<size_t>(a.axis)];
      Expr& at = moved[static_cast<size_t>(a.axis)];
      at = axis(k) * Expr(a.rest) + at;
      parts.domain[static_cast<size_t>(a.axis)] = a.rest;
      if (a.parts * a.rest > extent.as_int()) inside = logical_and(inside, at < extent);
    }
    Shape shape;
    for (const CutAxis& a : cut) shape.push_back(a.parts);
    parts.domain.insert(parts.domain.begin(), shape.begin(), shape.end());
    shape.insert(shape.end(), d.domain.begin(), d.domain.begin() + d.kept());
    parts.out = graph_.make_var(Type{TypeKind::tensor, d.accumulator, shape});
    parts.out_index = identity_indices(parts.out->rank());
    parts.body = substitute_axes(d.body, moved);
    if (!inside.is_int(1)) parts.body = select(inside, parts.body, identity_of(*d.reduce, d.accumulator));
    parts.epilogue = load(reduced_value, d.accumulator, {});
    simplify(parts, graph_.symbols);
    return parts;
  }

  // ---- rows ----
  static int64_t row_count(const Group& group) { return size_of_axes(group.stages[0], 0, group.shared); }
  static int64_t row_length(const Group& group, const Definition& d) {
    return size_of_axes(d, group.shared, static_cast<int>(d.domain.size()));
  }

  static bool has_few_long_rows(const Group& group) {
    return row_count(group) < gpu_costs.few_rows &&
           std::any_of(group.stages.begin(), group.stages.end(),
                       [&](const Definition& d) { return row_length(group, d) >= gpu_costs.long_row; });
  }

  // Neighbours in memory are elements of different rows (channels that lie last), of which there are many: blocks of one row
  // each would read with gaps.
  bool has_rows_across(const Group& group) const {
    if (group.shared < 1 || row_count(group) < gpu_costs.few_results) return false;
    int row = group.shared - 1;
    while (row > 0 && group.stages[0].domain[static_cast<size_t>(row)].is_int(1)) --row;
    return std::any_of(group.stages.begin(), group.stages.end(), [&](const Definition& d) {
      bool across = false;
      if (row_length(group, d) < gpu_costs.long_across || row_length(group, d) * row_count(group) < gpu_costs.large_across)
        return false;
      const Bounds bounds(graph_.symbols, d.domain);
      visit_loads(d, [&](Expr n) {
        const auto layout = context_.layouts->find(n->id);
        const Shape& shape = context_.var(n->id)->shape();
        if (n->args.size() != shape.size() ||
            std::none_of(n->args.begin(), n->args.end(), [&](Expr e) { return uses_other_axis(e, group.shared); }))
          return;
        const Expr step = stride_of(
            simplify(storage_address(shape, layout == context_.layouts->end() ? Layout() : layout->second, n->args), bounds),
            row);
        across = across || (bool(step) && step.is_int(1));
      });
      return across;
    });
  }
  static bool uses_other_axis(Expr e, int shared) {
    return any_of(e, [&](Expr n) { return n->kind == ExprKind::axis && n->id >= shared; });
  }

  // What a block would do for a row becomes kernels: the long stages, and between them what is few values of a row.
  void split_rows(const Group& group, int64_t least) {
    const size_t begin = region_.items.size();
    bool rows_last = false;
    const auto add_to_rows = [&](const Definition& d) {
      if (!rows_last) region_.items.emplace_back();
      region_.items.back().group.stages.push_back(d);
      rows_last = true;
    };
    const auto add_long = [&](const Definition& d) {
      add(d);
      rows_last = false;
    };
    for (const Definition& d : group.stages) {
      if (row_length(group, d) < least) {
        add_to_rows(d);
      } else if (auto passes = two_passes(alone(d))) {
        add_long(passes->parts);
        add_to_rows(passes->total);
      } else {
        add_long(d);
      }
    }
    for (size_t k = begin; k < region_.items.size(); ++k) {
      Group& own = region_.items[k].group;
      if (own.stages.size() > 1) own.shared = group.shared;
      for (const Definition& d : own.stages)
        if (own.stages.size() > 1 && group.internal.count(d.out->id) && !is_read_elsewhere(d.out, begin, k))
          own.internal.insert(d.out->id);
    }
  }

  bool is_read_elsewhere(const Var* var, size_t begin, size_t except) const {
    bool found = false;
    for (size_t k = begin; k < region_.items.size(); ++k)
      for (const Definition& d : region_.items[k].group.stages)
        if (k != except) visit_loads(d, [&](Expr n) { found |= n->id == var->id; });
    return found;
  }

  Graph& graph_;
  FusedRegion& region_;
  const LoweringContext& context_;
};

}  // namespace

void split_reductions(Graph& graph, FusedRegion& region, const LoweringContext& context) {
  ReductionSplitter(graph, region, context).run();
}

}  // namespace metac
