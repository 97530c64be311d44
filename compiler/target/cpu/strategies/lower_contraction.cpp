#include "compiler/target/cpu/strategies/lower_contraction.h"

#include <algorithm>

#include "compiler/ir/hints.h"
#include "compiler/ir/walks.h"
#include "compiler/loops/loop_transforms.h"
#include "compiler/support/diagnostic.h"
#include "compiler/target/cpu/tiles/register_tile.h"
#include "compiler/target/cpu/tiles/tile_prefetch.h"
#include "compiler/target/cpu/tiles/tiled_sum.h"
#include "compiler/target/precision.h"
#include "compiler/tensor/axes.h"

namespace metac {
namespace {

class ContractionLowering {
 public:
  ContractionLowering(const Group& group, const ContractionPlan& plan, const LoweringContext& context, bool few_rows,
                      Kernel begun, Tiled tiled)
      : d_(group.stages[0]),
        plan_(plan),
        context_(context),
        lanes_(context.vector_bytes / 4),
        few_rows_(few_rows),
        tiled_(tiled),
        kernel_(std::move(begun)) {}

  Kernel run() {
    kernel_.nodes = d_.nodes;
    address_everything();
    collapse_tiled_axes();
    choose_tile_axis();
    build();
    return std::move(kernel_);
  }

  const TiledExtents& extents() const { return extents_; }

 private:
  Layout layout_of(int var) const {
    auto found = context_.layouts->find(var);
    return found == context_.layouts->end() ? Layout() : found->second;
  }

  Expr addressed(Expr e) {
    return rewrite_loads(e, [&](Expr n, const std::vector<Expr>& indices) {
      if (n->id == reduced_value) return load(reduced_value, n->dtype, {});
      Var* var = context_.var(n->id);
      int argument = kernel_.argument(var, layout_of(n->id), false);
      if (n->id == plan_.packed || std::count(plan_.beside.begin(), plan_.beside.end(), n->id) > 0)
        kernel_.arguments[static_cast<size_t>(argument)].padded = true;
      return load(argument, n->dtype, {storage_address(var->shape(), layout_of(n->id), indices)});
    });
  }

  Bounds bounds() const {
    Bounds b(*context_.symbols);
    for (const auto* loops : {&kept_, &reduced_})
      for (const Loop& l : *loops) b.set_axis(l.axis, l.extent);
    return b;
  }

  void simplify_all() {
    Bounds b = bounds();
    for (Expr* e : expressions()) *e = simplify(*e, b);
  }

  // All that loops are around.
  std::vector<Expr*> expressions() {
    std::vector<Expr*> all = {&body_, &epilogue_, &offset_};
    if (plan_.bytes) all.insert(all.end(), {&data_word_, &number_word_, &of_run_});
    return all;
  }

  void address_everything() {
    std::vector<Expr> renamed;
    for (int k = 0; k < static_cast<int>(d_.domain.size()); ++k) {
      Loop loop{kernel_.next_axis++, d_.domain[static_cast<size_t>(k)], LoopKind::serial, {}};
      (k < d_.kept() ? kept_ : reduced_).push_back(loop);
      renamed.push_back(axis(loop.axis));
    }
    body_ = addressed(substitute_axes(d_.body, renamed));
    epilogue_ = addressed(substitute_axes(d_.epilogue, renamed));
    if (plan_.bytes) {
      data_word_ = addressed(substitute_axes(plan_.bytes->data, renamed));
      number_word_ = addressed(substitute_axes(plan_.bytes->numbers, renamed));
      of_run_ = addressed(substitute_axes(plan_.bytes->sum, renamed));
    }
    find_taps(renamed);
    std::vector<Expr> index;
    for (Expr e : d_.out_index) index.push_back(substitute_axes(e, renamed));
    target_ = kernel_.argument(d_.out, layout_of(d_.out->id), true);
    offset_ = storage_address(d_.out->shape(), layout_of(d_.out->id), index);
    lane_axis_ = kept_[static_cast<size_t>(plan_.lanes_axis)].axis;
    simplify_all();
    Expr step = stride_of(offset_, lane_axis_);
    METAC_ASSERT(bool(step) && step.is_int(1), "lanes of v", d_.out->id, " step by ",
                 step ? to_string(step) : "no constant");
  }

  // Taps of windows into data that is stored with zeros around it.
  void find_taps(const std::vector<Expr>& renamed) {
    const Expr read = plan_.bytes ? plan_.bytes->data : d_.body->args[0];
    if (plan_.lanes_in_both || read->kind != ExprKind::load) return;
    const Layout layout = layout_of(read->id);
    if (!layout.has_halo() || layout.fill != 0) return;
    const Shape& shape = context_.var(read->id)->shape();
    for (size_t k = 0; k < read->args.size(); ++k) {
      const std::vector<int> reduced = axes_used(read->args[k], d_.kept(), static_cast<int>(d_.domain.size()));
      if (layout.before[k] + layout.after[k] == 0 || reduced.size() != 1) continue;
      const int64_t* taps = d_.domain[static_cast<size_t>(reduced[0])].if_int();
      const Expr step = stride_of(read->args[k], reduced[0]);
      if (!taps || !step || !step.if_int() || step.as_int() <= 0) continue;
      if (!worth_leaving_out(*taps, step.as_int(), layout.before[k], hinted_value(shape[k], *context_.symbols))) continue;
      const int axis = reduced_[static_cast<size_t>(reduced[0] - d_.kept())].axis;
      taps_.push_back({axis, substitute_axes(read->args[k], renamed), shape[k]});
    }
  }

  // Of a window whose first tap reads `before` places in front of the data: do many pairs of a tap and a place of the data's
  // `extent` lie in the border?
  static bool worth_leaving_out(int64_t taps, int64_t step, int64_t before, int64_t extent) {
    constexpr double least = 0.06;
    int64_t outside = 0;
    for (int64_t t = 0; t < taps; ++t) outside += std::min(extent, std::abs(before - t * step));
    return static_cast<double>(outside) > least * static_cast<double>(taps * extent);
  }

  // The tiled axis: of the axes that the lanes' operand does not follow, the one with the smallest step in the output.
  void collapse_tiled_axes() {
    Bounds b = bounds();
    auto step = [&](const Loop& l) -> int64_t {
      Expr s = stride_of(offset_, l.axis);
      return s ? magnitude(b.interval(s).low).clamped() : 0;
    };
    std::stable_sort(kept_.begin(), kept_.end(), [&](const Loop& x, const Loop& y) { return step(x) > step(y); });
    for (size_t k = kept_.size(); k-- > 1;) {
      Loop &outer = kept_[k - 1], &inner = kept_[k];
      if (outer.axis == lane_axis_ || inner.axis == lane_axis_) continue;
      constexpr int64_t enough = 16;  // tiles of an image rather than of an open batch of them: their number is known
      if (const int64_t* extent = inner.extent.if_int(); extent && *extent >= enough && !outer.extent.if_int()) continue;
      const std::vector<Expr*> around = expressions();
      if (!std::all_of(around.begin(), around.end(), [&](const Expr* e) { return can_collapse(*e, outer, inner); }))
        continue;
      Loop merged{kernel_.next_axis++, outer.extent * inner.extent, LoopKind::serial, {}};
      for (Expr* e : around) *e = collapse_axes(*e, outer, inner, merged);
      std::erase_if(taps_,
                    [&](const WindowTaps& t) { return uses_axis(t.place, outer.axis) || uses_axis(t.place, inner.axis); });
      kept_[k - 1] = merged;
      kept_.erase(kept_.begin() + static_cast<int64_t>(k));
      kernel_.schedule.push_back("collapse two loops over one run of memory");
    }
  }

  // B is the operand with the lanes; the tile runs along an axis that only the other one has.
  void choose_tile_axis() {
    std::vector<const Loop*> candidates;
    std::vector<int64_t> extents;
    for (const Loop& l : kept_) {
      if (l.axis == lane_axis_ || uses_axis(body_->args[1], l.axis) || !uses_axis(body_->args[0], l.axis)) continue;
      candidates.push_back(&l);
      extents.push_back(typical_extent(l.extent, *context_.symbols));
    }
    if (candidates.empty()) return;
    const size_t usual = choose_tiled_axis(extents);
    const Loop* tiled = candidates[usual];
    extents_.usual = tiled->extent;
    const auto all = [&](auto are) { return are(candidates[0]) && are(candidates[1]); };
    const auto is_symbol = [](const Loop* l) { return l->extent->kind == ExprKind::symbol; };
    const auto is_short = [&](const Loop* l) {  // typically
      return !l->extent.if_int() && hinted_value(l->extent, *context_.symbols) < few_tiled_points;
    };
    if (candidates.size() == 2 && (all(is_symbol) || all(is_short))) {
      extents_.other = candidates[1 - usual]->extent;
      if (tiled_ == Tiled::other) tiled = candidates[1 - usual];
    }
    tile_axis_ = tiled->axis;
  }

  // Those of which a tile may have all its points in the border.
  std::vector<WindowTaps> taps_in_sight() const {
    std::vector<WindowTaps> found;
    for (const WindowTaps& t : taps_) {
      const Expr along = tile_axis_ >= 0 ? stride_of(t.place, tile_axis_) : Expr(0);
      if (!along || !along.if_int() || along.as_int() < 0) continue;
      const int64_t far = stride_of(t.place, t.axis).as_int() * (reduced_extent(t.axis) - 1) / 2;
      const int64_t points = std::min<int64_t>(plan_.most_points(), hinted_value(t.extent, *context_.symbols));
      if (along.as_int() == 0 || far >= along.as_int() * points) found.push_back(t);
    }
    return found;
  }
  int64_t reduced_extent(int axis) const {
    const auto loop = std::find_if(reduced_.begin(), reduced_.end(), [&](const Loop& l) { return l.axis == axis; });
    return loop->extent.as_int();
  }

  // What is left of an open axis is one more pass over the panel, of more points than there are, rather than a few of points
  // that add up to what is left: those cost less where all passes find the panel in the first-level cache, and where a run
  // decides how far apart the points are (r3d-18's last level, along a volume's rows: 1.35 of the time in one pass).
  bool leaves_one_pass(const TiledSum& sum) const {
    constexpr int64_t least_bytes = 16 << 10;
    const auto is_open = [](const Loop& l) { return !l.extent.if_int(); };
    if (std::none_of(sum.reduced.begin(), sum.reduced.end(), is_open) && panel_elements(sum) * 4 <= least_bytes)
      return false;
    const Expr read = body_->args[0];
    const Expr step = read->kind == ExprKind::load && !read->args.empty() ? stride_of(read->args[0], tile_axis_) : Expr(0);
    return bool(step) && step.if_int();
  }

  // May tile registers read the data beyond its last point? Its memory goes on for that long.
  bool reaches_beyond(int points) const {
    bool reaches = true;
    visit(body_->args[0], [&](Expr n) {
      if (n->kind != ExprKind::load || n->args.empty()) return;
      const Expr step = stride_of(n->args[0], tile_axis_);
      reaches = reaches && n->id < first_local && bool(step) && step.if_int() && step.as_int() >= 0 &&
                step.as_int() * (points - 1) <= kernel_.arguments[static_cast<size_t>(n->id)].layout.behind;
    });
    return reaches;
  }

  void build() {
    TiledSum sum;
    sum.kept = kept_;
    sum.reduced = reduced_;
    sum.body = body_;
    sum.epilogue = epilogue_;
    sum.offset = offset_;
    sum.target = target_;
    sum.lane_axis = lane_axis_;
    sum.tile_axis = tile_axis_;
    sum.vectors = plan_.vectors;
    sum.points = plan_.tile;
    sum.lanes = lanes_;
    sum.unrolled = plan_.unrolled;
    sum.taps = taps_in_sight();
    if (!sum.taps.empty()) kernel_.schedule.push_back("taps that read the border alone are left out");
    if (plan_.bytes)
      take_bytes(sum);
    else if (few_rows_)
      take_factor(sum);
    sum.widened = plan_.run_axes > 0 && !few_rows_ && !plan_.bytes;
    sum.lanes_in_both = plan_.lanes_in_both;
    sum.cache_bytes = static_cast<int64_t>(plan_.cache_share * static_cast<double>(context_.l2_bytes));
    if (plan_.packed >= 0 && plan_.run_axes == 0) sum.prefetch_bytes = context_.l2_bytes / 3;
    if (plan_.matrix) take_matrix(kernel_, sum, *context_.symbols);
    sum.reaches = plan_.run_axes == 0 && tile_axis_ >= 0 && (sum.matrix ? reaches_beyond(sum.points) : leaves_one_pass(sum));
    AddedTiles tiles = add_tiles(kernel_, kernel_.root, LoopKind::parallel, sum, *context_.symbols);
    SumShape shape;
    shape.lanes_in_both = plan_.lanes_in_both;
    double steps = 1;
    for (const Loop& l : reduced_) steps *= l.extent.if_int() ? static_cast<double>(l.extent.as_int()) : 64;
    const double of_step = sum.matrix ? matrix_cycles(tiles.points, plan_.vectors) / sum.matrix->words
                                      : tile_cycles(shape, tiles.points, plan_.vectors, lanes_);
    const double of_tile = steps * of_step / 3.0;
    const bool open = std::any_of(kept_.begin(), kept_.end(), [](const Loop& l) { return l.extent.if_int() == nullptr; });
    kernel_.cost = std::max(1.0, of_tile * (open ? tiles_of_a_task(tiles.points) : tiles.serial));
  }

  // At the usual sizes of open dims.
  double tiles_of_a_task(int points) const {
    const Expr tasks = parallel_extent(kernel_);
    double tiles = 1;
    for (const Loop& l : kept_) {
      const int64_t together = l.axis == lane_axis_ ? plan_.vectors * lanes_ : l.axis == tile_axis_ ? points : 1;
      tiles *= static_cast<double>(hinted_value(ceil_div(l.extent, Expr(together)), *context_.symbols));
    }
    return tiles / static_cast<double>(std::max<int64_t>(1, hinted_value(tasks, *context_.symbols)));
  }

  // Runs are sums of products of bytes, four at a time.
  void take_bytes(TiledSum& sum) {
    kernel_.schedule.push_back(multiplied_as_bytes);
    sum.reduced.back().extent = plan_.bytes->words;
    sum.body = call(Fn::dot_s8u8, {data_word_, number_word_});
    if (plan_.bytes->words_in_pairs > 0) add_pairs(sum);
    sum.of_run = of_run_;
    sum.run_axes = plan_.run_axes;
  }

  // Without an instruction that adds up four products in int32: a step is as many words' products as two int16 hold, and as
  // registers can hold words.
  void add_pairs(TiledSum& sum) {
    constexpr int64_t most_words = 8;
    const int64_t room = std::min(most_words, plan_.bytes->words_in_pairs), in_packed = plan_.bytes->words;
    Loop& within = sum.reduced.back();  // a packed word, whose words of four steps are all in the step
    Loop* packed = plan_.run_axes > 1 ? &sum.reduced[sum.reduced.size() - 2] : nullptr;
    int64_t together = 1;
    for (int64_t n = 1; packed && n * in_packed <= room; ++n)
      if (packed->extent.as_int() % n == 0) together = n;
    const int steps = kernel_.next_axis++;
    const auto at_word = [&](Expr e, int64_t k) {
      return rewrite(e, [&](Expr n) -> Expr {
        if (packed && n == axis(packed->axis)) return axis(steps) * Expr(together) + Expr(k / in_packed);
        return n == axis(within.axis) ? Expr(k % in_packed) : Expr();
      });
    };
    Expr pairs;
    for (int64_t k = 0; k < together * in_packed; ++k) {
      const Expr two = call(plan_.bytes->pairs, {at_word(data_word_, k), at_word(number_word_, k)});
      pairs = pairs ? call(Fn::add_i16, {pairs, two}) : two;
    }
    sum.in_step = call(Fn::sum_i16, {pairs});
    sum.body = at_word(sum.body, 0);
    if (packed) *packed = {steps, floor_div(packed->extent, together), LoopKind::serial, {}};
    within.extent = 1;
  }

  // A scale that is the same along a run of few points leaves the product: it is applied once a run. More points would want
  // more registers for sums than multiplying the element once for all of them costs.
  void take_factor(TiledSum& sum) const {
    const Expr element = body_->args[1];
    if (plan_.tile > most_points_of_runs || element->kind != ExprKind::call || element->fn != Fn::mul) return;
    for (size_t k : {size_t{0}, size_t{1}}) {
      const auto in_run = [&](const Loop& l) { return uses_axis(element->args[k], l.axis); };
      if (std::any_of(reduced_.end() - plan_.run_axes, reduced_.end(), in_run)) continue;
      sum.of_run = element->args[k] * load(reduced_value, body_->dtype, {});
      sum.run_axes = plan_.run_axes;
      sum.body = call(Fn::mul, {body_->args[0], element->args[1 - k]});
      return;
    }
  }

  const Definition& d_;
  const ContractionPlan& plan_;
  const LoweringContext& context_;
  int lanes_;
  bool few_rows_;
  Tiled tiled_;
  TiledExtents extents_;
  Kernel kernel_;
  std::vector<Loop> kept_, reduced_;
  std::vector<WindowTaps> taps_;
  Expr body_, epilogue_, offset_;
  Expr data_word_, number_word_, of_run_;  // of bytes
  int target_ = 0, lane_axis_ = 0, tile_axis_ = -1;
};

}  // namespace

Kernel lower_contraction(const Group& group, const ContractionPlan& plan, const LoweringContext& context, bool few_rows,
                         Kernel begun, Tiled tiled, TiledExtents* extents) {
  ContractionLowering lowering(group, plan, context, few_rows, std::move(begun), tiled);
  Kernel made = lowering.run();
  if (extents) *extents = lowering.extents();
  return made;
}

}  // namespace metac
