#include "compiler/target/cpu/layouts/choose_layouts.h"

#include <algorithm>

#include "compiler/ir/hints.h"
#include "compiler/region/split_parts.h"
#include "compiler/region/split_residues.h"
#include "compiler/region/store_into_parts.h"
#include "compiler/support/diagnostic.h"
#include "compiler/target/cpu/layouts/byte_runs.h"
#include "compiler/target/cpu/layouts/choose_lanes.h"
#include "compiler/target/cpu/layouts/compact_operand.h"
#include "compiler/target/cpu/layouts/contraction_axes.h"
#include "compiler/target/cpu/layouts/contraction_choices.h"
#include "compiler/target/cpu/layouts/pack_operand.h"
#include "compiler/target/cpu/layouts/plan_winograd.h"
#include "compiler/target/cpu/layouts/transform_weights.h"
#include "compiler/target/cpu/residue_parts.h"
#include "compiler/target/cpu/split_long_sums.h"
#include "compiler/target/cpu/strategies/cpu_strategies.h"
#include "compiler/target/layout_pass.h"
#include "compiler/tensor/axes.h"
#include "compiler/tensor/contraction.h"
#include "compiler/tensor/layout_rules.h"

namespace metac {
namespace {

class LayoutChooser : private LayoutPass {
 public:
  explicit LayoutChooser(RegionState& state)
      : LayoutPass(state),
        options_(state.options),
        lanes_(options_.cpu.vector_bytes / 4),
        byte_data_(graph_) {}

  std::vector<Var*> run() {
    note_makers();
    for (size_t k = 0; k < region_.items.size(); ++k) {
      Item& item = region_.items[k];
      if (item.op || item.group.stages.size() != 1) continue;
      Definition& d = item.group.stages[0];
      if (auto total = split_long_sum(graph_, d, options_.cpu.l2_bytes)) {
        makers_[d.out->id] = k;
        totals_[d.out->id] = total->out;
        after_[k].push_back(item_of(std::move(*total)));
      }
      drop_unit_axes(d, graph_.symbols);
      split_residues(d, graph_.symbols, [&](const Definition& whole, int result_axis, Expr extent) {
        return widened(whole, k, result_axis, extent);
      });
      split_stored_digits(d, lanes_ / 2, graph_.symbols);
      drop_dead_taps(d, graph_.symbols);
      turn_windows(d, graph_.symbols);
      if (merge_narrow_group(d, lanes_, graph_.symbols)) narrow_.insert(d.out->id);
    }
    for (Item& item : region_.items)
      if (auto work = find_work(item)) work_[&item - region_.items.data()] = *work;
    for (auto& [index, work] : work_) choose_result_layout(region_.items[static_cast<size_t>(index)].group, work);
    spread_channels_last();
    for (auto& [index, work] : work_) store_for_reader(work);
    for (auto& [index, work] : work_) choose_halo(static_cast<size_t>(index), work);
    for (size_t k = 0; k < region_.items.size(); ++k) bring_words_together(k);
    for (auto& [index, work] : work_)
      if (!filter_minimally(static_cast<size_t>(index), work)) finish(static_cast<size_t>(index), work);
    insert_items([this](size_t k, std::vector<Item>& all) {
      std::vector<Item>& parts = parts_[k];
      if (parts.empty()) parts.push_back(std::move(region_.items[k]));
      for (Item& item : parts) split_parts(std::move(item), graph_.symbols, all);
    });
    store_into_parts(region_.items, layouts_, [this](const Var* v) { return !must_be_plain(v); });
    return std::move(prepared_);
  }

 private:
  using Work = LaneChoice;

  std::optional<Work> find_work(const Item& item) const {
    if (item.op || item.group.stages.size() != 1) return std::nullopt;
    const Definition& d = item.group.stages[0];
    return choose_lanes(
        d, lanes_, narrow_.count(d.out->id) > 0, graph_.symbols, [this](int id) { return var(id); }, is_constant_);
  }

  // ---- layouts ----
  void choose_result_layout(Group& group, const Work& w) {
    Definition& d = group.stages[0];
    int rank = d.out->rank();
    if (w.out_axis == rank - 1) return;
    if (must_be_plain(d.out)) {
      // The kernel stores channels last into a Var of its own; a copy makes the plain result.
      Var* own = graph_.make_var(d.out->type);
      Definition copy = copy_of(own, d.out, d.nodes);
      size_t index = makers_.at(d.out->id);
      if (narrow_.count(d.out->id)) narrow_.insert(own->id);
      d.out = own;
      makers_[own->id] = index;
      after_[index].push_back(item_of(copy));
    }
    layouts_[d.out->id] = last(d.out->shape(), w.out_axis);
    // What parts of a long sum add up to lies as they do, unless each lane has a part.
    if (auto total = totals_.find(d.out->id); total != totals_.end() && w.out_axis > 0 && !must_be_plain(total->second))
      layouts_[total->second->id] = last(total->second->shape(), w.out_axis - 1);
  }

  void spread_channels_last() {
    for (Item& item : region_.items) {
      if (item.op) continue;
      const bool rows = item.group.stages.size() != 1;
      for (const Definition& d : item.group.stages) {
        if (layouts_.count(d.out->id) || must_be_plain(d.out) || d.scatter || item.group.internal.count(d.out->id)) continue;
        if (work_.count(static_cast<int64_t>(makers_.at(d.out->id)))) continue;  // stored along its lanes
        const bool last_stage = &d == &item.group.stages.back();
        std::optional<Layout> order = last_stage ? order_of_loops(d) : std::nullopt;
        if (!order) order = rows ? stored_as_read(d, layouts_) : stored_along_windows(d, layouts_);
        if (order) layouts_[d.out->id] = *order;
      }
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
        for (Definition& reader : item.group.stages) read_instead(reader, whole->id, own->id);
    makers_[own->id] = index;
    if (needed_.in_memory.count(whole)) {
      after_[index].push_back(item_of(copy_of(own, whole, d.nodes)));
    }
    return own;
  }

  // ---- halos ----
  // Data that nobody has a layout for yet lies as the first contraction wants it.
  void store_for_reader(const Work& w) {
    Var* source = var(w.c.a.load->id);
    if (layouts_.count(source->id) || must_be_plain(source) || !stores_anywhere(source) ||
        work_.count(static_cast<int64_t>(makers_.at(source->id))))
      return;
    int inner = wanted_last(w);
    if (inner < 0 || inner == source->rank() - 1) return;
    layouts_[source->id] = last(source->shape(), inner);
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
    auto halo = halo_that_serves(w.c.a, source->shape(), d.domain, graph_.symbols);
    if (!halo) return;
    const bool parted = w.c.a.outside == 0 && !w.lanes_in_both && !narrow_.count(d.out->id) &&
                        !border_parts(d, w.c.a.conditions, graph_.symbols).empty();
    if (must_be_plain(source) || !stores_anywhere(source)) {
      source = haloed_copy(source, index, w);
      w.c.a.load = load(source->id, read->dtype, read->args);
    }
    if (parted) return w.c.a.borders.swap(w.c.a.conditions);
    const auto word = static_cast<int32_t>(w.c.a.outside);  // the same byte four times, or 0
    const int64_t fill = size_of(source->dtype()) == 4 ? word : word & 255;
    if (layout_of(source->id).has_halo() && layout_of(source->id).fill != fill) return;
    Layout& layout = layouts_[source->id];
    layout.fill = fill;
    if (!layout.has_halo()) {
      layout.before.assign(read->args.size(), 0);
      layout.after.assign(read->args.size(), 0);
    }
    for (size_t k = 0; k < read->args.size(); ++k) {
      layout.before[k] = std::max(layout.before[k], halo->before[k]);
      layout.after[k] = std::max(layout.after[k], halo->after[k]);
    }
    w.c.a.conditions.clear();
  }

  // Lanes along the windows of data (a convolution with few output channels): instead of packing, which would copy every
  // window, the data itself is copied, with a halo and with the axis last that the lanes step along.
  bool copy_rows(const Definition& d, Work& w, size_t index) {
    Expr read = w.c.b.load;
    Var* source = var(read->id);
    int row = -1;
    Expr windows = 1;
    for (int k = 0; k < static_cast<int>(d.domain.size()); ++k)
      if (uses_axis(read, k)) windows = windows * d.domain[static_cast<size_t>(k)];
    const int64_t elements = hinted_value(element_count(source->shape()), graph_.symbols);
    if (hinted_value(windows, graph_.symbols) / 2 < elements) return false;
    for (int k = 0; k < source->rank(); ++k) {
      Expr at = read->args[static_cast<size_t>(k)], step = stride_of(at, w.lanes_axis);
      if (!uses_axis(at, w.lanes_axis)) continue;
      if (row >= 0 || !step || !step.is_int(1)) return false;
      row = k;
    }
    auto halo = halo_that_serves(w.c.b, source->shape(), d.domain, graph_.symbols);
    if (row < 0 || !halo) return false;
    Var* own = copied_before(index, source);
    Layout& layout = layouts_[own->id];
    if (row != source->rank() - 1) layout = last(source->shape(), row);
    layout.before = halo->before;
    layout.after = halo->after;
    w.c.b.load = load(own->id, read->dtype, read->args);
    w.c.b.conditions.clear();
    return true;
  }

  int wanted_last(const Work& w) const { return metac::wanted_last(w, var(w.c.a.load->id)->shape(), lanes_); }

  // A Var of its own for the same values, copied before item `index`.
  Var* copied_before(size_t index, const Var* source) {
    Var* own = graph_.make_var(source->type);
    before_[index].push_back(item_of(copy_of(source, own)));
    return own;
  }

  // Inputs and values that others want plain are copied once, but words of another axis again, into storage with a halo and
  // with the axis last that lanes or the sum run along. It has the source's halo too: not all ask where the source ends.
  Var* haloed_copy(Var* source, size_t index, const Work& w) {
    const Layout from = layout_of(source->id);
    const int words = word_position(w.c.a.load, w.c.word_axis);
    for (Var* copy : copies_[source->id])
      if (words < 0 || innermost_axis(layout_of(copy->id), copy->rank()) == words)
        if (layout_of(copy->id).holds_halo_of(from)) return copy;
    Var* own = copied_before(index, source);
    copies_[source->id].push_back(own);
    Layout& layout = layouts_[own->id];
    if (int inner = wanted_last(w); inner >= 0) layout = last(source->shape(), inner);
    layout.before = from.before, layout.after = from.after, layout.fill = from.fill;
    return own;
  }

  // ---- words ----
  // Words are read from memory in which their elements are neighbours, with room behind the last row for the last word.
  void bring_words_together(size_t index) {
    Item& item = region_.items[index];
    if (item.op || item.group.stages.size() != 1) return;
    Definition& d = item.group.stages[0];
    auto matched = contraction_of(d);
    if (!matched || matched->product == Fn::mul) return;
    auto work = work_.find(static_cast<int64_t>(index));
    Work without{*matched};
    Work& w = work == work_.end() ? without : work->second;
    Expr read = w.c.a.load;
    int inner = word_position(read, w.c.word_axis);
    if (inner >= 0) {
      Var* source = var(read->id);
      int64_t missing = room_for_words(d, read, inner, source->type, graph_.symbols);
      if (narrow_.count(d.out->id)) missing = std::max(missing, room_for_groups(*source, inner, lanes_));
      if (innermost_axis(layout_of(source->id), source->rank()) != inner || (missing != 0 && must_be_plain(source))) {
        source = haloed_copy(source, index, w);
        w.c.a.load = load(source->id, read->dtype, read->args);
      }
      if (missing != 0) {
        Layout& roomy = layouts_[source->id];
        if (roomy.order.empty()) roomy.order = last(source->shape(), source->rank() - 1).order;
        roomy.gap = std::max(roomy.gap, missing);
      }
    }
    d.body = w.c.guarded_body();
    simplify(d, graph_.symbols);
  }

  // ---- packing and the tile ----
  void finish(size_t index, Work& w) {
    Item& item = region_.items[index];
    Definition& d = item.group.stages[0];
    if (!w.c.a.conditions.empty()) return;               // stays with the default schedule
    if (!lanes_are_near(d, w.lanes_axis, w.c.a.load)) {  // a plain value: copied with its channels last
      if (!w.lanes_in_both || wanted_last(w) < 0) return;
      w.c.a.load = load(haloed_copy(var(w.c.a.load->id), index, w)->id, w.c.a.load->dtype, w.c.a.load->args);
      if (!lanes_are_near(d, w.lanes_axis, w.c.a.load)) return;
    }
    const std::string subject = subject_of(d, w.c, w.lanes_axis);
    bool narrow = narrow_.count(d.out->id) > 0;
    if (!narrow && !linear_in_the_tile(d, w.c, w.lanes_axis, address_of(w.c.a.load), graph_.symbols) &&
        !flatten_before(d, w, index))
      return;
    std::optional<CompactForm> compact = narrow ? std::nullopt : compact_form_of(d, w);
    const std::optional<ByteRuns> bytes = compact ? bytes_of(d, w, *compact, index) : std::nullopt;
    if (bytes) compact->bytes_in_words = compact->bits == 8;
    const int run_axes = compact ? split_into_runs(d, w.c, *compact, graph_.symbols) : 0;
    if (!compact && !narrow) split_reduced_axis(d, w.c, address_of(w.c.a.load), graph_.symbols);
    const Runs runs = bytes ? Runs::of_bytes : compact ? Runs::scaled : Runs::none;
    auto plan = plan_contraction(d, w, narrow, runs, address_of(w.c.a.load), options_.cpu, graph_.symbols, subject,
                                 options_.choices);
    if (!plan) return;
    if (compact) return finish_compact(index, w, *compact, bytes, *plan, run_axes);
    bring_near(d, w.lanes_axis, index);
    Expr b_address = address_of(w.c.b.load);
    Bounds bounds(graph_.symbols, d.domain);
    Expr step = stride_of(simplify(b_address, bounds), w.lanes_axis);
    bool constant = is_constant_(var(w.c.b.load->id));
    const std::vector<ResiduePart> parts = w.c.a.borders.empty()
                                               ? residue_parts(d, w.lanes_axis, w.c.b.conditions, graph_.symbols)
                                               : border_parts(d, w.c.a.borders, graph_.symbols);
    if (parts.empty() && !w.c.a.borders.empty()) return;  // its conditions stay
    const bool collide =
        !constant && !w.lanes_in_both &&
        steps_collide(d, simplify(b_address, bounds), w.c.a, static_cast<int64_t>(size_of(w.c.b.load->dtype)));
    const bool in_order = !constant && w.c.b.conditions.empty() && bool(step) && step.is_int(1) && !collide;
    if (!in_order && (constant || collide || w.lanes_in_both || !copy_rows(d, w, index))) {
      if (Var* packed = pack(d, w, plan->vectors, constant, index))
        plan->packed = packed->id;
      else
        return;
    }
    if (!narrow && plan->matrix) go_on_behind(d, w, plan->most_points());
    d.body = w.c.body();
    simplify(d, graph_.symbols);
    item.group.strategy = std::make_shared<ContractionPlan>(*plan);
    for (const ResiduePart& part : parts) {
      Item own = item;
      own.group.stages[0] = part_of(d, part, graph_.symbols);
      if (part.no_taps) own.group.strategy.reset();
      parts_[index].push_back(std::move(own));
    }
  }

  // ---- operands of few bits ----
  std::optional<CompactForm> compact_form_of(const Definition& d, const Work& w) const {
    if (w.lanes_in_both || w.c.product != Fn::mul || !w.c.a.borders.empty()) return std::nullopt;
    const Definition* made = made_by_prepare(w.c.b.load->id);
    return made ? compact_form(d, w.c.b, *made, graph_.symbols) : std::nullopt;
  }

  // The data as bytes, where the sum may read it so; kernels that make it come before item `index`.
  std::optional<ByteRuns> bytes_of(const Definition& d, const Work& w, const CompactForm& form, size_t index) {
    const Var* x = var(w.c.a.load->id);
    if (!byte_data_.may_be_read(d, w.c.a, x, form, options_.cpu)) return std::nullopt;
    std::vector<Definition> kernels;
    const ByteRuns runs = byte_data_.of(x, form.run, d.nodes, kernels);
    for (const Definition& kernel : kernels) before_[index].push_back(item_of(kernel));
    return runs;
  }

  void finish_compact(size_t index, Work& w, const CompactForm& form, const std::optional<ByteRuns>& bytes,
                      ContractionPlan& plan, int run_axes) {
    Item& item = region_.items[index];
    Definition& d = item.group.stages[0];
    bring_near(d, w.lanes_axis, index);
    CompactOperand compact = pack_compact(graph_, d, form, w.lanes_axis, static_cast<int64_t>(plan.vectors) * lanes_);
    for (const Definition& kernel : compact.kernels) {
      const Var* const made = prepare(kernel);
      (plan.packed < 0 ? plan.packed : plan.beside.emplace_back()) = made->id;
      for (Expr* e : {&compact.value, &compact.number, &compact.words})
        if (*e) *e = with_loads_of(*e, kernel.out, made);
    }
    plan.run_axes = run_axes;
    plan.unrolled = form.steps_in_word() > 1;
    const int step = static_cast<int>(d.domain.size()) - 1;
    if (bytes) plan.bytes = product_of_bytes(*bytes, w.c.a.load, form, compact, step, options_.cpu);
    d.body = (bytes ? element_of(*bytes, w.c.a.load, form) : w.c.a.load) * compact.value;
    simplify(d, graph_.symbols);
    item.group.strategy = std::make_shared<ContractionPlan>(plan);
  }

  // Tiles of an open axis end where its rows do not: the data's memory goes on for as long as tile registers reach.
  void go_on_behind(const Definition& d, const Work& w, int points) {
    const Var* source = var(w.c.a.load->id);
    if (must_be_plain(source) || is_constant_(source)) return;
    const int64_t behind = elements_behind(d, w.c, address_of(w.c.a.load), points, graph_.symbols);
    if (behind > 0) layouts_[source->id].behind = std::max(layouts_[source->id].behind, behind);
  }

  // Data with channels last that is read through a flatten: copied plain, it is read in order. Not where it has a halo,
  // which may be read too.
  bool flatten_before(const Definition& d, Work& w, size_t index) {
    Expr read = w.c.a.load;
    const Var* source = var(read->id);
    if (layout_of(source->id).order.empty() || layout_of(source->id).has_halo()) return false;
    const Expr plain = storage_address(source->shape(), Layout(), read->args);
    if (!linear_in_the_tile(d, w.c, w.lanes_axis, plain, graph_.symbols)) return false;
    w.c.a.load = load(copied_before(index, source)->id, read->dtype, read->args);
    return true;
  }

  bool lanes_are_near(const Definition& d, int lanes_axis, Expr load) const {
    return metac::lanes_are_near(d, lanes_axis, lanes_, load, address_of(load), graph_.symbols);
  }

  // What the epilogue reads across the lanes (a residual that lies row-major) is first copied along them.
  void bring_near(Definition& d, int lanes_axis, size_t index) {
    if (!d.epilogue) return;
    std::vector<Expr> far;
    visit(d.epilogue, [&](Expr n) {
      if (n->kind == ExprKind::load && n->id != reduced_value && !lanes_are_near(d, lanes_axis, n) &&
          !std::count(far.begin(), far.end(), n))
        far.push_back(n);
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
      layouts_[own->id] = last(own->shape(), lanes_axis);
      Expr near = load(own->id, read->dtype, identity_indices(own->rank()));
      d.epilogue = rewrite(d.epilogue, [&](Expr n) { return n == read ? near : Expr(); });
    }
  }

  Expr address_of(Expr load) const { return storage_address(var(load->id)->shape(), layout_of(load->id), load->args); }

  Layout layout_of(int id) const {
    auto found = layouts_.find(id);
    return found == layouts_.end() ? Layout() : found->second;
  }

  // Packs the operand with the lanes: in `prepare` where it is made of parameters, else in a kernel before this one.
  Var* pack(Definition& d, Work& w, int vectors, bool constant, size_t index) {
    auto packed = pack_operand(graph_, d, w.c.b, w.lanes_axis, static_cast<int64_t>(vectors) * lanes_, constant);
    if (!packed) return nullptr;
    Var* out = packed->kernel.out;
    if (constant)
      out = prepare(packed->kernel);
    else
      before_[index].push_back(item_of(packed->kernel));
    w.c.b.load = with_loads_of(packed->load, packed->kernel.out, out);
    return out;
  }

  // ---- minimal filtering ----
  bool filter_minimally(size_t index, Work& w) {
    Definition& d = region_.items[index].group.stages[0];
    if (d.accumulator != DType::f32 || w.c.b.load->dtype != DType::f32 || narrow_.count(d.out->id) || w.lanes_in_both ||
        !w.c.a.borders.empty())
      return false;
    const bool constant = is_constant_(var(w.c.b.load->id));
    auto plan = choose_algorithm(d, w, constant, options_, graph_.symbols);
    if (!plan || !reach_beyond(d, w, *plan)) return false;
    bring_near(d, w.lanes_axis, index);
    pack(d, w, plan->vectors, constant, index);
    PackedOperand transformed = transform_weights(graph_, d, w.c.b.load, *plan);
    const Var* const made = constant ? prepare(transformed.kernel) : transformed.kernel.out;
    if (!constant) before_[index].push_back(item_of(transformed.kernel));
    plan->transformed = made->id;
    d.body = w.c.a.load * with_loads_of(transformed.load, transformed.kernel.out, made);
    simplify(d, graph_.symbols);
    region_.items[index].group.strategy = std::make_shared<WinogradPlan>(*plan);
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
    const auto beyond = reach_beyond_data(d, w.c, plan, source->shape());
    if (!beyond) return false;
    if (beyond->y == 0 && beyond->x == 0) return true;
    if (!layout.has_halo()) {
      if (must_be_plain(source) || !stores_anywhere(source)) return false;
      layout.before.assign(read->args.size(), 0);
      layout.after.assign(read->args.size(), 0);
    }
    int64_t& after_y = layout.after[static_cast<size_t>(beyond->y_index)];
    int64_t& after_x = layout.after[static_cast<size_t>(beyond->x_index)];
    after_y = std::max(after_y, beyond->y);
    after_x = std::max(after_x, beyond->x);
    layouts_[source->id] = layout;
    return true;
  }

  const CompileOptions& options_;
  int lanes_;
  ByteData byte_data_;
  std::map<int64_t, Work> work_;               // by item
  std::set<int> narrow_;                       // results of narrow groups
  std::map<int, Var*> totals_;                 // by the Var of the parts of a long sum: what they add up to
  std::map<size_t, std::vector<Item>> parts_;  // what an item was cut into
  std::map<int, std::vector<Var*>> copies_;
};

}  // namespace

std::vector<Var*> choose_layouts(RegionState& state) { return LayoutChooser(state).run(); }

}  // namespace metac
