// For every contraction: along which axis of the result vectors run, how that makes the result lie in memory, which
// operand is packed for it and which operand gets a halo. Then layouts spread to element-wise and pooling neighbours.
//
//   - The lanes run along an axis of the result that steps by one in memory. Where the result's last axis belongs to the
//     weights' operand (matmul), row-major serves; where it does not (convolution: W), the result is stored with the
//     axis that does (channels) last.
//   - The operand with the lanes is packed: [its other axes..., lane block, reduced axes in loop order, lanes]. If it is
//     made of parameters, `prepare` packs it.
//   - A padded convolution reads its other operand under conditions; a halo of zeros around that operand makes them true.
#include "compiler/passes/choose_layouts.h"

#include <algorithm>

#include "compiler/kernel/contraction.h"
#include "compiler/kernel/cook_toom.h"
#include "compiler/kernel/loop_transforms.h"
#include "compiler/passes/choose_lanes.h"
#include "compiler/passes/contraction_axes.h"
#include "compiler/passes/plan_winograd.h"
#include "compiler/passes/split_parts.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

class LayoutChooser {
 public:
  LayoutChooser(Graph& graph, FusedRegion& region, FusedRegion& prepare, Layouts& layouts, const Needed& needed,
                const std::function<bool(const Var*)>& is_constant, const CompileOptions& options)
      : graph_(graph), region_(region), prepare_(prepare), layouts_(layouts), needed_(needed), is_constant_(is_constant), options_(options),
        lanes_(options.cpu.vector_bytes / 4), registers_(options.cpu.vector_bytes >= 64 ? 32 : 16) {}

  void run() {
    for (size_t k = 0; k < region_.items.size(); ++k) {
      Item& item = region_.items[k];
      if (item.op) continue;
      for (const Definition& d : item.group.stages) makers_[d.out->id] = k;
    }
    for (size_t k = 0; k < region_.items.size(); ++k) {
      Item& item = region_.items[k];
      if (item.op || item.group.stages.size() != 1) continue;
      Definition& d = item.group.stages[0];
      drop_unit_axes(d, graph_.symbols);
      split_residues(d, graph_.symbols, [&](const Definition& whole, int result_axis, Expr extent) { return widened(whole, k, result_axis, extent); });
      if (merge_narrow_group(d, lanes_, graph_.symbols)) narrow_.insert(d.out->id);
    }
    for (Item& item : region_.items)
      if (auto work = find_work(item)) work_[&item - region_.items.data()] = *work;
    for (auto& [index, work] : work_) choose_result_layout(region_.items[static_cast<size_t>(index)].group, work);
    spread_channels_last();
    for (auto& [index, work] : work_) choose_halo(static_cast<size_t>(index), work);
    for (auto& [index, work] : work_)
      if (!filter_minimally(static_cast<size_t>(index), work)) finish(static_cast<size_t>(index), work);
    insert_items();
  }

 private:
  using Work = LaneChoice;

  Var* var(int id) const { return graph_.vars()[static_cast<size_t>(id)].get(); }

  bool must_be_plain(const Var* v) const {
    if (v->is_input || v->constant || needed_.in_memory.count(v) || !makers_.count(v->id)) return true;
    for (auto& [view, source] : region_.views)
      if (source == v) return true;
    return false;
  }

  std::optional<Work> find_work(const Item& item) const {
    if (item.op || item.group.stages.size() != 1) return std::nullopt;
    const Definition& d = item.group.stages[0];
    return choose_lanes(d, lanes_, narrow_.count(d.out->id) > 0, [this](int id) { return is_constant_(var(id)); });
  }

  static Expr all_of(const std::vector<Expr>& conditions) {
    Expr all = bool_constant(true);
    for (Expr c : conditions) all = logical_and(all, c);
    return all;
  }

  static std::vector<int> axes_used_of(Expr load, const Definition& d) { return axes_used(load, 0, d.kept()); }

  // ---- layouts ----
  static Layout last(int rank, int the_axis) {
    Layout layout;
    for (int k = 0; k < rank; ++k)
      if (k != the_axis) layout.order.push_back(k);
    layout.order.push_back(the_axis);
    return layout;
  }

  void choose_result_layout(Group& group, const Work& w) {
    Definition& d = group.stages[0];
    int rank = d.out->rank();
    if (w.out_axis == rank - 1) return;
    if (must_be_plain(d.out)) {
      // The kernel stores channels last into a Var of its own; a copy makes the plain result.
      Var* own = graph_.make_var(d.out->type);
      Definition copy;
      copy.out = d.out;
      copy.domain = d.out->shape();
      copy.body = load(own->id, own->dtype(), identity_indices(rank));
      copy.out_index = identity_indices(rank);
      copy.nodes = d.nodes;
      size_t index = makers_.at(d.out->id);
      if (narrow_.count(d.out->id)) narrow_.insert(own->id);
      d.out = own;
      makers_[own->id] = index;
      after_[index].push_back(item_of(copy));
    }
    layouts_[d.out->id] = last(rank, w.out_axis);
    layouts_[d.out->id].gap = gap_for(d.out->shape()[static_cast<size_t>(w.out_axis)]);
  }

  // Rows of a multiple of 4 KiB would all fall into the same sets of the first-level cache.
  static int64_t gap_for(Expr extent) { return extent.if_int() && extent.as_int() % 1024 == 0 ? 16 : 0; }

  static Item item_of(Definition d) {
    Item item;
    item.group.stages = {std::move(d)};
    return item;
  }

  // Computed along rows and stored across them (a normalisation whose transpose was fused into it): storage follows the
  // loops.
  static std::optional<Layout> order_of_loops(const Definition& d) {
    int rank = d.out->rank();
    std::vector<std::pair<int, int>> axes;  // of the loops, of the result
    for (int k = 0; k < rank; ++k) {
      Expr e = d.out_index[static_cast<size_t>(k)];
      if (e->kind == ExprKind::axis) axes.push_back({e->id, k});
      else if (!e.is_int(0)) return std::nullopt;
      else axes.push_back({-1, k});
    }
    std::sort(axes.begin(), axes.end());
    if (rank == 0 || axes.back().second == rank - 1) return std::nullopt;
    Layout layout;
    for (auto& [loop, k] : axes) layout.order.push_back(k);
    layout.gap = gap_for(d.out->shape()[static_cast<size_t>(layout.order.back())]);
    return layout;
  }

  void spread_channels_last() {
    for (Item& item : region_.items) {
      if (item.op) continue;
      Definition& d = item.group.stages.back();
      if (layouts_.count(d.out->id) || must_be_plain(d.out) || d.scatter) continue;
      if (work_.count(static_cast<int64_t>(makers_.at(d.out->id)))) continue;  // stored along its lanes
      if (auto order = order_of_loops(d)) {
        layouts_[d.out->id] = *order;
        continue;
      }
      if (item.group.stages.size() != 1) continue;
      if (d.out_index != identity_indices(d.out->rank()) || d.out->rank() < 3) continue;
      std::optional<Layout> found;
      visit_loads(d, [&](Expr n) {
        auto layout = layouts_.find(n->id);
        if (layout == layouts_.end() || layout->second.order.empty() || static_cast<int>(n->args.size()) != d.out->rank()) return;
        int inner = layout->second.order.back();
        Expr step = stride_of(n->args[static_cast<size_t>(inner)], inner);
        if (bool(step) && step.is_int(1) && !found) found = last(d.out->rank(), inner);
      });
      if (!found) continue;
      found->gap = gap_for(d.out->shape()[static_cast<size_t>(found->order.back())]);
      layouts_[d.out->id] = *found;
    }
  }

  // A Var of its own for the result of item `index`, longer along one axis; readers read it, others get a copy.
  Var* widened(const Definition& d, size_t index, int result_axis, Expr extent) {
    Var* whole = d.out;
    for (auto& [view, source] : region_.views)
      if (source == whole) return nullptr;
    Type type = whole->type;
    type.shape[static_cast<size_t>(result_axis)] = extent;
    Var* own = graph_.make_var(type);
    for (std::vector<Item>* items : {&region_.items, &after_[index]})
      for (Item& item : *items)
        for (Definition& reader : item.group.stages)
          replace_loads(reader, whole->id, [&](const std::vector<Expr>& at) { return load(own->id, own->dtype(), at); });
    makers_[own->id] = index;
    if (needed_.in_memory.count(whole)) {
      Definition copy;
      copy.out = whole;
      copy.domain = whole->shape();
      copy.body = load(own->id, own->dtype(), identity_indices(whole->rank()));
      copy.out_index = identity_indices(whole->rank());
      copy.nodes = d.nodes;
      after_[index].push_back(item_of(copy));
    }
    return own;
  }

  // ---- halos ----
  // How far `index` overhangs below 0 and beyond `extent`; -1: not known.
  static int64_t overhang(const Bounds& bounds, Expr index, Expr extent, bool below) {
    for (int64_t h : {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 24, 32})
      if (below ? bounds.proves_at_least(index + Expr(h), 0) : bounds.proves_less(index, extent + Expr(h))) return h;
    return -1;
  }

  // Is it a result whose kernel can store with a halo?
  bool stores_anywhere(const Var* v) const {
    const Group& group = region_.items[makers_.at(v->id)].group;
    return group.stages.back().out == v && !group.stages.back().scatter;
  }

  void choose_halo(size_t index, Work& w) {
    if (w.c.a.conditions.empty()) return;
    Definition& d = region_.items[index].group.stages[0];
    Expr read = w.c.a.load;
    Var* source = var(read->id);
    Bounds bounds(graph_.symbols, d.domain);
    std::vector<int64_t> before, after;
    std::vector<Expr> implied;
    for (size_t k = 0; k < read->args.size(); ++k) {
      before.push_back(overhang(bounds, read->args[k], source->shape()[k], true));
      after.push_back(overhang(bounds, read->args[k], source->shape()[k], false));
      if (before.back() < 0 || after.back() < 0) return;
      implied.push_back(Expr(0) <= read->args[k]);
      implied.push_back(read->args[k] < source->shape()[k]);
    }
    for (Expr c : w.c.a.conditions)
      if (std::find(implied.begin(), implied.end(), c) == implied.end()) return;
    if (must_be_plain(source) || !stores_anywhere(source)) {
      source = haloed_copy(source, index, w);
      w.c.a.load = load(source->id, read->dtype, read->args);
    }
    Layout& layout = layouts_[source->id];
    if (!layout.has_halo()) {
      layout.before.assign(read->args.size(), 0);
      layout.after.assign(read->args.size(), 0);
    }
    for (size_t k = 0; k < before.size(); ++k) {
      layout.before[k] = std::max(layout.before[k], before[k]);
      layout.after[k] = std::max(layout.after[k], after[k]);
    }
    w.c.a.conditions.clear();
  }

  // Inputs and values that others want plain are copied once into storage with a halo: with the axis last that lanes or
  // the sum run along.
  Var* haloed_copy(Var* source, size_t index, const Work& w) {
    if (auto found = copies_.find(source->id); found != copies_.end()) return found->second;
    const Definition& d = region_.items[index].group.stages[0];
    Var* own = graph_.make_var(source->type);
    Definition copy;
    copy.out = own;
    copy.domain = source->shape();
    copy.body = load(source->id, source->dtype(), identity_indices(source->rank()));
    copy.out_index = identity_indices(source->rank());
    before_[index].push_back(item_of(copy));
    copies_[source->id] = own;
    int inner = -1;
    int64_t longest = lanes_ - 1;
    for (int k = 0; k < source->rank(); ++k) {
      Expr e = w.c.a.load->args[static_cast<size_t>(k)];
      if (e->kind != ExprKind::axis || (w.lanes_in_both ? e->id != w.lanes_axis : e->id < d.kept())) continue;
      const int64_t* extent = source->shape()[static_cast<size_t>(k)].if_int();
      if (!extent || *extent <= longest) continue;
      longest = *extent;
      inner = k;
    }
    if (inner >= 0) {
      layouts_[own->id] = last(source->rank(), inner);
      layouts_[own->id].gap = gap_for(source->shape()[static_cast<size_t>(inner)]);
    }
    return own;
  }

  // ---- packing and the tile ----
  void finish(size_t index, Work& w) {
    Item& item = region_.items[index];
    Definition& d = item.group.stages[0];
    if (!w.c.a.conditions.empty()) return;  // stays with the default schedule
    bool narrow = narrow_.count(d.out->id) > 0;
    if (!narrow && !linear_in_the_tile(d, w)) return;
    if (!narrow) split_reduced_axis(d, w);
    ContractionPlan plan;
    plan.lanes_axis = w.lanes_axis;
    plan.lanes_in_both = w.lanes_in_both;
    auto known = [](Expr e) { return e.if_int() ? e.as_int() : int64_t{0}; };
    Tile tile = choose_tile(tiled_points(d, w), known(d.domain[static_cast<size_t>(w.lanes_axis)]), lanes_, registers_, w.lanes_in_both);
    plan.vectors = tile.vectors;
    plan.tile = tile.points;
    if (w.lanes_in_both) {
      int64_t last_extent = d.reduced > 0 ? known(d.domain.back()) : 0;
      plan.unrolled = last_extent > 0 && last_extent <= (narrow ? lanes_ : 7) ? 1 : 0;
      if (narrow && plan.unrolled == 0) return;
      if (narrow) plan.vectors = std::min(plan.vectors, 2), plan.tile = std::min(plan.tile, 12);
    }
    if (!lanes_are_near(d, plan.lanes_axis, w.c.a.load)) return;
    bring_near(d, plan.lanes_axis, index);
    Expr b_address = storage_address(var(w.c.b.load->id)->shape(), layout_of(w.c.b.load->id), w.c.b.load->args);
    Bounds bounds(graph_.symbols, d.domain);
    Expr step = stride_of(simplify(b_address, bounds), w.lanes_axis);
    bool constant = is_constant_(var(w.c.b.load->id));
    if (constant || !w.c.b.conditions.empty() || !step || !step.is_int(1)) {
      if (Var* packed = pack(d, w, plan.vectors, constant, index)) plan.packed = packed->id;
      else return;
    }
    d.body = w.c.a.load * w.c.b.load;
    simplify(d, graph_.symbols);
    item.group.contraction = plan;
  }

  // Is the load the same in all lanes, or one vector of neighbours, in order or shuffled?
  bool lanes_are_near(const Definition& d, int lanes_axis, Expr load) const {
    int block = static_cast<int>(d.domain.size());
    Bounds bounds(graph_.symbols, d.domain);
    bounds.set_axis(block, ceil_div(d.domain[static_cast<size_t>(lanes_axis)], lanes_));
    for (Expr e : load->args)
      if (e->has_load) return false;
    Expr address = simplify(storage_address(var(load->id)->shape(), layout_of(load->id), load->args), bounds);
    auto at = [&](int lane) {
      return simplify(rewrite(address, [&](Expr x) { return x == axis(lanes_axis) ? axis(block) * Expr(lanes_) + Expr(lane) : Expr(); }), bounds);
    };
    Expr first = at(0);
    for (int lane = 1; lane < lanes_; ++lane) {
      Expr gap = simplify(at(lane) - first, bounds);
      if (!gap.if_int() || gap.as_int() < 0 || gap.as_int() >= lanes_) return false;
    }
    return true;
  }

  // What the epilogue reads across the lanes (a residual that lies row-major) is first copied along them.
  void bring_near(Definition& d, int lanes_axis, size_t index) {
    if (!d.epilogue) return;
    std::vector<Expr> far;
    visit(d.epilogue, [&](Expr n) {
      if (n->kind == ExprKind::load && n->id != reduced_value && !lanes_are_near(d, lanes_axis, n) && !std::count(far.begin(), far.end(), n)) far.push_back(n);
    });
    for (Expr read : far) {
      Var* source = var(read->id);
      Var* own = graph_.make_var(Type{TypeKind::tensor, read->dtype, Shape(d.domain.begin(), d.domain.begin() + d.kept())});
      Definition copy;
      copy.out = own;
      copy.domain = own->shape();
      copy.body = load(source->id, read->dtype, read->args);
      copy.out_index = identity_indices(own->rank());
      copy.nodes = d.nodes;
      simplify(copy, graph_.symbols);
      before_[index].push_back(item_of(copy));
      layouts_[own->id] = last(own->rank(), lanes_axis);
      Expr near = load(own->id, read->dtype, identity_indices(own->rank()));
      d.epilogue = rewrite(d.epilogue, [&](Expr n) { return n == read ? near : Expr(); });
    }
  }

  Layout layout_of(int id) const {
    auto found = layouts_.find(id);
    return found == layouts_.end() ? Layout() : found->second;
  }

  // Divisions in the address of the other operand are of axes that the lanes' operand has too: outside of the tile.
  bool linear_in_the_tile(const Definition& d, const Work& w) const {
    Bounds bounds(graph_.symbols, d.domain);
    Expr load = w.c.a.load, address = simplify(storage_address(var(load->id)->shape(), layout_of(load->id), load->args), bounds);
    std::vector<int> outer = axes_used_of(w.c.b.load, d);
    return !any_of(address, [&](Expr n) {
      if (n->kind != ExprKind::call || (n->fn != Fn::floor_div && n->fn != Fn::floor_mod)) return false;
      std::vector<int> divided = axes_used(n, 0, static_cast<int>(d.domain.size()));
      return std::count(divided.begin(), divided.end(), w.lanes_axis) > 0 || !std::includes(outer.begin(), outer.end(), divided.begin(), divided.end());
    });
  }

  // The points of the axes that will collapse into the tiled one (an estimate: the schedule decides); 0: not known.
  int64_t tiled_points(const Definition& d, const Work& w) const {
    std::vector<int> in_b = axes_used_of(w.c.b.load, d);
    Bounds bounds(graph_.symbols, d.domain);
    Expr a = simplify(storage_address(var(w.c.a.load->id)->shape(), layout_of(w.c.a.load->id), w.c.a.load->args), bounds);
    std::vector<int64_t> runs;  // innermost first
    Expr inner_step;
    for (int k = d.kept(); k-- > 0;) {
      if (k == w.lanes_axis || std::count(in_b.begin(), in_b.end(), k) || !uses_axis(a, k)) continue;
      const int64_t* extent = d.domain[static_cast<size_t>(k)].if_int();
      Expr step = stride_of(a, k);
      if (extent && bool(step) && bool(inner_step) && runs.back() > 0 && step == inner_step * Expr(runs.back())) {
        runs.back() *= *extent;
        continue;
      }
      runs.push_back(extent ? *extent : 0);
      inner_step = step;
    }
    std::reverse(runs.begin(), runs.end());
    return runs.empty() ? 0 : runs[choose_tiled_axis(runs)];
  }

  // A long reduced axis that is contiguous in the other operand, outside of window axes: 16 of it innermost, so that a
  // window's neighbours read the same cache lines while these are near.
  void split_reduced_axis(Definition& d, Work& w) {
    constexpr int64_t run = 16;
    if (d.reduced < 2) return;
    Bounds bounds(graph_.symbols, d.domain);
    Expr a = simplify(storage_address(var(w.c.a.load->id)->shape(), layout_of(w.c.a.load->id), w.c.a.load->args), bounds);
    for (int k = d.kept(); k < static_cast<int>(d.domain.size()); ++k) {
      Expr step = stride_of(a, k);
      const int64_t* extent = d.domain[static_cast<size_t>(k)].if_int();
      if (!step || !step.is_int(1) || !extent || *extent % run != 0 || *extent <= run) continue;
      std::vector<Expr> renamed = identity_indices(static_cast<int>(d.domain.size()));
      int inner = static_cast<int>(d.domain.size());
      renamed[static_cast<size_t>(k)] = axis(k) * Expr(run) + axis(inner);
      d.domain[static_cast<size_t>(k)] = *extent / run;
      d.domain.push_back(run);
      ++d.reduced;
      // The outer part goes to the front of the reduced axes.
      std::vector<int> position(d.domain.size());
      std::vector<Expr> moved;
      for (int n = 0; n < static_cast<int>(position.size()); ++n) {
        position[static_cast<size_t>(n)] = n == k ? d.kept() : n >= d.kept() && n < k ? n + 1 : n;
        moved.push_back(axis(position[static_cast<size_t>(n)]));
      }
      for (Expr* e : {&w.c.a.load, &w.c.b.load}) *e = substitute_axes(substitute_axes(*e, renamed), moved);
      for (Expr& e : w.c.b.conditions) e = substitute_axes(substitute_axes(e, renamed), moved);
      d.body = w.c.a.load * w.c.b.load;
      if (!w.c.b.conditions.empty()) d.body = select(all_of(w.c.b.conditions), d.body, float_constant(0, DType::f32));
      Shape domain(d.domain.size());
      for (size_t n = 0; n < position.size(); ++n) domain[static_cast<size_t>(position[n])] = d.domain[n];
      d.domain = domain;
      return;
    }
  }

  // packed[other kept axes of b..., lane block, reduced axes..., lane] = b, zero beyond the lanes' extent.
  Var* pack(Definition& d, Work& w, int vectors, bool constant, size_t index) {
    int64_t block = static_cast<int64_t>(vectors) * lanes_;
    std::vector<int> others;
    for (int k : axes_used_of(w.c.b.load, d))
      if (k != w.lanes_axis) others.push_back(k);
    Expr lanes_extent = d.domain[static_cast<size_t>(w.lanes_axis)];
    Shape shape;
    std::vector<Expr> at, from(d.domain.size());
    for (int k : others) {
      from[static_cast<size_t>(k)] = axis(static_cast<int>(shape.size()));
      shape.push_back(d.domain[static_cast<size_t>(k)]);
      at.push_back(axis(k));
    }
    int lane_block = static_cast<int>(shape.size());
    shape.push_back(ceil_div(lanes_extent, block));
    at.push_back(floor_div(axis(w.lanes_axis), block));
    for (int k = d.kept(); k < static_cast<int>(d.domain.size()); ++k) {
      if (!uses_axis(w.c.b.load, k)) continue;
      from[static_cast<size_t>(k)] = axis(static_cast<int>(shape.size()));
      shape.push_back(d.domain[static_cast<size_t>(k)]);
      at.push_back(axis(k));
    }
    int lane = static_cast<int>(shape.size());
    shape.push_back(block);
    at.push_back(floor_mod(axis(w.lanes_axis), block));
    if (constant && !is_static(shape)) return nullptr;
    Expr lane_index = axis(lane_block) * Expr(block) + axis(lane);
    from[static_cast<size_t>(w.lanes_axis)] = lane_index;
    for (size_t k = 0; k < from.size(); ++k)
      if (!from[k]) from[k] = axis(static_cast<int>(k) + 1000);  // not in b
    Var* packed = graph_.make_var(Type{TypeKind::tensor, DType::f32, shape});
    Definition p;
    p.out = packed;
    p.domain = shape;
    p.body = substitute_axes(w.c.b.load, from);
    if (!w.c.b.conditions.empty()) p.body = select(substitute_axes(all_of(w.c.b.conditions), from), p.body, float_constant(0, DType::f32));
    if (!floor_mod(lanes_extent, block).is_int(0)) p.body = select(lane_index < lanes_extent, p.body, float_constant(0, DType::f32));
    p.out_index = identity_indices(static_cast<int>(shape.size()));
    p.nodes = d.nodes;
    simplify(p, graph_.symbols);
    w.c.b.load = load(packed->id, DType::f32, at);
    if (constant) {
      prepare_.items.push_back(item_of(p));
      made_in_prepare_.push_back(packed);
    } else {
      before_[index].push_back(item_of(p));
    }
    return packed;
  }

  // ---- minimal filtering ----
  bool filter_minimally(size_t index, Work& w) {
    Definition& d = region_.items[index].group.stages[0];
    if (narrow_.count(d.out->id) || w.lanes_in_both || !is_constant_(var(w.c.b.load->id))) return false;
    auto plan = plan_winograd(d, w.c, w.lanes_axis, options_.cpu, options_.winograd);
    if (!plan || !reach_beyond(d, w, *plan)) return false;
    bring_near(d, w.lanes_axis, index);
    pack(d, w, plan->vectors, true, index);
    d.body = w.c.a.load * load_transformed(d, w, *plan);
    simplify(d, graph_.symbols);
    region_.items[index].group.winograd = *plan;
    return true;
  }

  // The last tiles read past the data: the halo grows to hold that. False where the data cannot have one, or does not
  // have its channels together.
  bool reach_beyond(const Definition& d, const Work& w, const WinogradPlan& plan) {
    Expr read = w.c.a.load;
    Var* source = var(read->id);
    Layout layout = layout_of(source->id);
    if (read->dtype != DType::f32 || layout.order.empty()) return false;
    Expr channel = read->args[static_cast<size_t>(layout.order.back())];
    if (uses_axis(channel, plan.y) || uses_axis(channel, plan.x) || channel.is_constant()) return false;
    TileReach reach = tile_reach(d, w.c, plan);
    auto beyond = [&](int k, int64_t end) { return std::max<int64_t>(0, end - source->shape()[static_cast<size_t>(k)].as_int()); };
    if (!source->shape()[static_cast<size_t>(reach.y_index)].if_int() || !source->shape()[static_cast<size_t>(reach.x_index)].if_int()) return false;
    int64_t y = beyond(reach.y_index, reach.y), x = beyond(reach.x_index, reach.x);
    if (y == 0 && x == 0) return true;
    if (!layout.has_halo()) {
      if (must_be_plain(source) || !stores_anywhere(source)) return false;
      layout.before.assign(read->args.size(), 0);
      layout.after.assign(read->args.size(), 0);
    }
    int64_t& after_y = layout.after[static_cast<size_t>(reach.y_index)];
    int64_t& after_x = layout.after[static_cast<size_t>(reach.x_index)];
    after_y = std::max(after_y, y);
    after_x = std::max(after_x, x);
    layouts_[source->id] = layout;
    return true;
  }

  // U[outer..., lane block, (i, j), channel, lane] = sum of g[i, ky] * g[j, kx] * packed[outer..., lane block, ..., lane].
  Expr load_transformed(const Definition& d, Work& w, WinogradPlan& plan) {
    int size = plan.outputs + 2;
    Var* packed = var(w.c.b.load->id);
    Var* table = graph_.make_var(Type{TypeKind::tensor, DType::f32, {size, 3}});
    std::vector<float> values;
    for (const std::vector<double>& row : cook_toom(plan.outputs, 3).g)
      for (double v : row) values.push_back(static_cast<float>(v));
    table->constant = make_tensor(DType::f32, {size, 3}, values);
    // The packed weights' axes after the outer ones: lane block, the reduced axes in order, lane.
    size_t rank = packed->shape().size(), outer = rank - 5;
    Definition u;
    std::vector<Expr> from(rank), at(w.c.b.load->args.begin(), w.c.b.load->args.begin() + static_cast<int64_t>(outer) + 1);
    Shape shape;
    auto kept = [&](Expr extent) {
      u.domain.push_back(extent);
      return axis(static_cast<int>(u.domain.size()) - 1);
    };
    for (size_t k = 0; k <= outer; ++k) {
      from[k] = kept(packed->shape()[k]);
      u.out_index.push_back(from[k]);
      shape.push_back(packed->shape()[k]);
    }
    Expr i = kept(size), j = kept(size);
    u.out_index.push_back(i * Expr(size) + j);
    shape.push_back(int64_t{size} * size);
    at.push_back(0);
    int channel = -1;
    for (int k = d.kept(); k < static_cast<int>(d.domain.size()); ++k)
      if (k != plan.window_y && k != plan.window_x) channel = k;
    Expr c = kept(d.domain[static_cast<size_t>(channel)]), lane = kept(packed->shape().back());
    u.out_index.push_back(c);
    u.out_index.push_back(lane);
    shape.push_back(d.domain[static_cast<size_t>(channel)]);
    shape.push_back(packed->shape().back());
    at.push_back(axis(channel));
    at.push_back(w.c.b.load->args.back());
    Expr ky = kept(3), kx = kept(3);
    for (int k = d.kept(); k < static_cast<int>(d.domain.size()); ++k)
      from[outer + 1 + static_cast<size_t>(k - d.kept())] = k == channel ? c : k == plan.window_y ? ky : kx;
    from[rank - 1] = lane;
    u.reduced = 2;
    u.reduce = Reduce::add;
    u.body = load(table->id, DType::f32, {i, ky}) * load(table->id, DType::f32, {j, kx}) * load(packed->id, DType::f32, from);
    u.epilogue = load(reduced_value, DType::f32, {});
    u.out = graph_.make_var(Type{TypeKind::tensor, DType::f32, shape});
    u.nodes = d.nodes;
    simplify(u, graph_.symbols);
    prepare_.items.push_back(item_of(u));
    made_in_prepare_.push_back(u.out);
    plan.transformed = u.out->id;
    return load(u.out->id, DType::f32, at);
  }

  void insert_items() {
    std::vector<Item> all;
    for (size_t k = 0; k < region_.items.size(); ++k) {
      for (Item& item : before_[k]) all.push_back(std::move(item));
      split_parts(std::move(region_.items[k]), graph_.symbols, all);
      for (Item& item : after_[k]) all.push_back(std::move(item));
    }
    region_.items = std::move(all);
  }

 public:
  std::vector<Var*> made_in_prepare_;

 private:
  Graph& graph_;
  FusedRegion &region_, &prepare_;
  Layouts& layouts_;
  const Needed& needed_;
  const std::function<bool(const Var*)>& is_constant_;
  const CompileOptions& options_;
  int lanes_, registers_;
  std::map<int, size_t> makers_;           // Var id -> item
  std::map<int64_t, Work> work_;           // by item
  std::set<int> narrow_;                   // results of narrow groups
  std::map<size_t, std::vector<Item>> before_, after_;
  std::map<int, Var*> copies_;
};

}  // namespace

std::vector<Var*> choose_layouts(Graph& graph, FusedRegion& region, FusedRegion& prepare, Layouts& layouts, const Needed& needed,
                                 const std::function<bool(const Var*)>& is_constant, const CompileOptions& options) {
  LayoutChooser chooser(graph, region, prepare, layouts, needed, is_constant, options);
  chooser.run();
  return chooser.made_in_prepare_;
}

}  // namespace metac
