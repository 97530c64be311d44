#include "compiler/target/cpu/strategies/lower_row_block.h"

#include <algorithm>

#include "compiler/ir/walks.h"
#include "compiler/loops/lane_reduction.h"
#include "compiler/loops/loop_transforms.h"
#include "compiler/machine/cpu_costs.h"
#include "compiler/support/checked.h"
#include "compiler/support/diagnostic.h"
#include "compiler/target/cpu/strategies/keys_in_sight.h"
#include "compiler/target/cpu/strategies/transposed_nest.h"
#include "compiler/target/cpu/strategies/words_of_halves.h"
#include "compiler/target/cpu/tiles/register_tile.h"
#include "compiler/target/cpu/tiles/tiled_sum.h"
#include "compiler/tensor/axes.h"
#include "compiler/tensor/contraction.h"

namespace metac {
namespace {

class RowBlockLowering {
 public:
  RowBlockLowering(const Group& group, bool by_words, const LoweringContext& context)
      : group_(group), context_(context), by_words_(by_words), lanes_(context.vector_bytes / 4), rows_(2 * lanes_) {}

  Kernel run() {
    const Definition& first = group_.stages[0];
    int outer = group_.shared - 1;
    for (int k = 0; k < outer; ++k)
      kernel_.root.loops.push_back({kernel_.next_axis++, first.domain[static_cast<size_t>(k)], LoopKind::parallel, {}});
    row_extent_ = first.domain[static_cast<size_t>(outer)];
    Loop blocks{kernel_.next_axis++, ceil_div(row_extent_, rows_), LoopKind::parallel, {}};
    kernel_.root.loops.push_back(blocks);
    first_row_ = axis(blocks.axis) * Expr(rows_);
    kernel_.schedule.push_back(concat("blocks of ", rows_, " rows along the lanes"));
    auto scores =
        std::find_if(group_.stages.begin(), group_.stages.end(), [](const Definition& d) { return bool(d.reduce); });
    if (!row_extent_.is_int(1)) sight_ = keys_in_sight(group_);
    if (sight_ && sight_->keys.if_int() && sight_->keys.as_int() < few_keys * rows_) sight_.reset();
    for (const Definition& d : group_.stages) {
      merge_nodes(kernel_.nodes, d.nodes);
      if (&d == &*scores)
        lower_first(d);
      else if (&d == &group_.stages.back())
        lower_last(d);
      else
        lower_middle(d);
    }
    set_cost();
    return std::move(kernel_);
  }

 private:
  struct Internal {
    int local = 0;
    std::vector<int> axes;  // of the Var, those that are not shared loops and not of extent 1
    Shape dims;
  };

  Layout layout_of(int var) const {
    auto found = context_.layouts->find(var);
    return found == context_.layouts->end() ? Layout() : found->second;
  }

  // ---- axes of a stage ----
  struct Axes {
    std::vector<Loop> kept, reduced;
    Loop lane;                  // the row within its block
    std::vector<Expr> renamed;  // the definition's axes; the row is clamped to the last one
  };

  Axes make_axes(const Definition& d) {
    Axes a;
    a.lane = {kernel_.next_axis++, Expr(rows_), LoopKind::serial, {}};
    for (int k = 0; k < static_cast<int>(d.domain.size()); ++k) {
      if (k < group_.shared - 1) {
        a.renamed.push_back(axis(kernel_.root.loops[static_cast<size_t>(k)].axis));
      } else if (k == group_.shared - 1) {
        a.renamed.push_back(row(axis(a.lane.axis)));
      } else {
        Loop loop{kernel_.next_axis++, d.domain[static_cast<size_t>(k)], LoopKind::serial, {}};
        if (bool(keys_seen_) && sight_->key_axis[static_cast<size_t>(&d - group_.stages.data())] == k)
          loop.extent = keys_seen_;
        (k < d.kept() ? a.kept : a.reduced).push_back(loop);
        a.renamed.push_back(axis(loop.axis));
      }
    }
    return a;
  }

  // How many keys a row of the block sees at most, from 0 to all of them.
  Expr seen_by(Expr row, const Axes& a) {
    std::vector<Expr> at(a.renamed.begin(), a.renamed.begin() + group_.shared);
    at.back() = row;
    Expr seen = sight_->keys;
    for (Expr limit : sight_->limits) seen = min(seen, addressed(substitute_axes(limit, at), a, -1) + Expr(1));
    return max(seen, Expr(0));
  }

  // From here on loops over keys end behind the last one that a row of the block sees, or with the tile that has it.
  void see_keys(int points, const Axes& a) {
    const Expr last = max(seen_by(row(Expr(rows_ - 1)), a), Expr(1));
    keys_seen_ = min(ceil_div(last, points) * Expr(points), sight_->keys);
    kernel_.schedule.push_back("keys that no row of a block may see are left out");
  }

  // `d` does nothing but mask what is in place already: keys that every row sees stay as they are. Its loop over keys begins
  // behind these.
  void pass_over_seen(const Definition& d, Axes& a, Expr& offset, Expr& value) {
    const size_t stage = static_cast<size_t>(&d - group_.stages.data());
    if (!sight_ || !sight_->only_masked || stage != static_cast<size_t>(sight_->masked)) return;
    Loop& key = a.kept[static_cast<size_t>(sight_->key_axis[stage] - group_.shared)];
    const Expr first = min(seen_by(first_row_, a), keys_seen_);
    const Loop rest{kernel_.next_axis++, keys_seen_ - first, LoopKind::serial, {}};
    for (Expr* e : {&offset, &value})
      *e = rewrite(*e, [&](Expr n) { return n == axis(key.axis) ? first + axis(rest.axis) : Expr(); });
    key = rest;
  }

  bool rows_fit() const { return floor_mod(row_extent_, rows_).is_int(0); }
  Expr row(Expr lane) const { return rows_fit() ? first_row_ + lane : min(first_row_ + lane, row_extent_ - Expr(1)); }

  Bounds bounds(const Axes& a) const {
    Bounds b(*context_.symbols);
    for (const auto* loops : {&kernel_.root.loops, &a.kept, &a.reduced})
      for (const Loop& l : *loops) b.set_axis(l.axis, l.extent);
    b.set_axis(a.lane.axis, a.lane.extent);
    return b;
  }

  // ---- values ----
  // Loads of Vars become loads of arguments or locals at element offsets; `e` is in kernel axes.
  Expr addressed(Expr e, const Axes& a, int accumulator) {
    Expr value = rewrite_loads(e, [&](Expr n, const std::vector<Expr>& indices) {
      if (n->id == reduced_value)
        return accumulator < 0 ? load(reduced_value, n->dtype, {}) : load(first_local + accumulator, n->dtype, {});
      if (auto found = internals_.find(n->id); found != internals_.end())
        return load(first_local + found->second.local, n->dtype, {internal_offset(found->second, n->args, a)});
      Var* var = context_.var(n->id);
      return load(kernel_.argument(var, layout_of(n->id), false), n->dtype,
                  {storage_address(var->shape(), layout_of(n->id), indices)});
    });
    return simplify(value, bounds(a));
  }

  Expr internal_offset(const Internal& in, const std::vector<Expr>& index, const Axes& a) const {
    std::vector<Expr> own;
    for (int k : in.axes) own.push_back(index[static_cast<size_t>(k)]);
    return linear_index(in.dims, own) * Expr(rows_) + axis(a.lane.axis);
  }

  // A local of one vector of rows per element that the Var has beside the shared axes.
  Internal make_internal(const Definition& d) {
    Internal in;
    for (int k = 0; k < d.out->rank(); ++k) {
      Expr index = d.out_index[static_cast<size_t>(k)];
      bool shared = index->kind == ExprKind::axis && index->id < group_.shared;
      if (shared || d.out->shape()[static_cast<size_t>(k)].is_int(1)) continue;
      in.axes.push_back(k);
      in.dims.push_back(d.out->shape()[static_cast<size_t>(k)]);
    }
    in.local = make_local(d.out->dtype(), element_count(in.dims) * Expr(rows_));
    internals_[d.out->id] = in;
    return in;
  }

  // The value that `d` may take the place of: of the same shape, read by it element for element, and by nobody after it.
  std::optional<int> in_place_of(const Definition& d) const {
    if (d.reduce) return std::nullopt;
    std::optional<int> found;
    visit_loads(d, [&](Expr read) {
      if (!internals_.count(read->id) || read->dtype != d.out->dtype()) return;
      if (read->args == d.out_index && context_.var(read->id)->shape() == d.out->shape()) found = read->id;
    });
    if (!found) return std::nullopt;
    bool later = false, other_element = false;
    for (const Definition& stage : group_.stages)
      if (&stage > &d) visit_loads(stage, [&](Expr read) { later |= read->id == *found; });
    visit_loads(d, [&](Expr read) { other_element |= read->id == *found && read->args != d.out_index; });
    return later || other_element ? std::nullopt : found;
  }

  int make_local(DType dtype, Expr count) {
    constexpr int64_t stack_limit = cpu_costs.stack_bytes_of_rows;
    Local local{kernel_.next_local++, dtype, count, 0};
    bool small = count.if_int() && count.as_int() * static_cast<int64_t>(size_of(dtype)) <= stack_limit;
    (small ? kernel_.root.locals : kernel_.scratch).push_back(local);
    return local.id;
  }

  std::vector<Expr> substituted(const std::vector<Expr>& es, const std::vector<Expr>& renamed) const {
    std::vector<Expr> out;
    for (Expr e : es) out.push_back(substitute_axes(e, renamed));
    return out;
  }

  // ---- stages ----
  // One nest: `loops` around a reduction over a.reduced, or around a plain value.
  LoopNode stage_node(const Definition& d, const Axes& a, std::vector<Loop> loops, int target, Expr offset, Expr body,
                      Expr epilogue, int accumulator) {
    LoopNode node;
    node.comment = concat("v", d.out->id);
    node.loops = std::move(loops);
    Assign store{target, offset, d.reduce ? epilogue : body, {}};
    if (!d.reduce) {
      node.assigns = {store};
      return node;
    }
    node.locals.push_back({accumulator, d.accumulator, {}, 0});
    node.assigns.push_back({first_local + accumulator, {}, identity_of(*d.reduce, d.accumulator), {}});
    LoopNode sum, last;
    sum.loops = a.reduced;
    sum.assigns.push_back({first_local + accumulator, {}, body, d.reduce});
    last.assigns = {store};
    node.children = {sum, last};
    return node;
  }

  void lower_middle(const Definition& d) {
    Axes a = make_axes(d);
    int accumulator = d.reduce ? kernel_.next_local++ : -1;
    Expr body = addressed(substitute_axes(d.body, a.renamed), a, accumulator), epilogue;
    if (d.epilogue) epilogue = addressed(substitute_axes(d.epilogue, a.renamed), a, accumulator);
    std::optional<int> place = in_place_of(d);
    Internal in = place ? internals_[d.out->id] = internals_.at(*place) : make_internal(d);
    Expr offset = simplify(internal_offset(in, substituted(d.out_index, a.renamed), a), bounds(a));
    std::vector<Loop> loops = a.kept;
    if (d.reduce) {
      LaneReduction reduction{
          a.kept, a.reduced, a.lane, *d.reduce, d.accumulator, body, epilogue, accumulator, first_local + in.local,
          offset, lanes_};
      if (auto node = lane_reduction(kernel_, reduction, bounds(a))) {
        node->comment = concat("v", d.out->id);
        kernel_.root.children.push_back(std::move(*node));
        return;
      }
    }
    if (can_vectorise(a.lane, {body, epilogue}, offset)) {
      a.lane.kind = LoopKind::vector;
      loops.push_back(a.lane);
    } else if (!d.reduce) {
      if (place) pass_over_seen(d, a, offset, body);
      return add_rows(concat("v", d.out->id), a, a.kept, in.local, offset, body);
    } else {
      loops.insert(loops.begin(), a.lane);
    }
    kernel_.root.children.push_back(stage_node(d, a, loops, first_local + in.local, offset, body, epilogue, accumulator));
  }

  // local[offset] = value, which is read row by row: in square blocks where its loads step by one along a loop.
  void add_rows(std::string comment, const Axes& a, const std::vector<Loop>& loops, int local, Expr offset, Expr value) {
    LoopNode node;
    std::optional<LoopNode> blocks;
    for (size_t k = loops.size(); k-- > 0 && !blocks;) {
      TransposedNest nest{loops, a.lane, loops[k], first_local + local, offset, value, lanes_};
      nest.outer.erase(nest.outer.begin() + static_cast<int64_t>(k));
      blocks = transposed_nest(kernel_, nest, bounds(a));
    }
    if (blocks) {
      node = std::move(*blocks);
    } else {
      node.loops = loops;
      node.loops.insert(node.loops.begin(), a.lane);
      node.assigns.push_back({first_local + local, offset, value, {}});
    }
    node.comment = std::move(comment);
    kernel_.root.children.push_back(std::move(node));
  }

  // The rows' operand, transposed into a local: [sum..., R].
  Expr transpose_rows(Expr operand, const Axes& a) {
    std::vector<Loop> loops;
    Shape dims;
    std::vector<Expr> at;
    for (const Loop& l : a.reduced) {
      if (!uses_axis(operand, l.axis)) continue;
      loops.push_back(l);
      dims.push_back(l.extent);
      at.push_back(axis(l.axis));
    }
    int local = make_local(DType::f32, element_count(dims) * Expr(rows_));
    Expr offset = linear_index(dims, at) * Expr(rows_) + axis(a.lane.axis);
    add_rows("rows along the lanes", a, loops, local, offset, addressed(operand, a, -1));
    return load(first_local + local, DType::f32, {offset});
  }

  // Values of half types are widened where they are read.
  static Expr widened(Expr load) { return is_half(load->dtype) ? cast(load, DType::f32) : load; }
  // Are neighbours along the loop neighbours in memory?
  static bool lies_along(Expr value, const Loop& l) {
    const Expr from = value->kind == ExprKind::cast ? value->args[0] : value;
    const Expr step = stride_of(from->args[0], l.axis);
    return bool(step) && step.is_int(1);
  }

  // ---- words of two bfloat16 ----
  // The only summed axis of `a`, by words from now on. Of keys fewer may be in sight than there are.
  Halved by_words(Axes& a) {
    const Expr extent = a.reduced[0].extent;
    const Halved halves = halved(kernel_, a.reduced[0], keys_seen_ == extent ? sight_->keys : extent, bounds(a));
    a.reduced[0] = halves.word;
    return halves;
  }

  // Rows that lie along the lanes, rounded into a local: [words, R].
  Expr words_of_rows(std::string comment, Expr rows, const Halved& halves, const Axes& a) {
    const int local = make_local(DType::i32, halves.most * Expr(rows_));
    const Expr offset = axis(halves.word.axis) * Expr(rows_) + axis(a.lane.axis);
    LoopNode node;
    node.comment = std::move(comment);
    node.loops = {halves.word, a.lane};
    node.loops.back().kind = LoopKind::vector;
    node.assigns.push_back({first_local + local, offset, word_of(rows, halves, bounds(a)), {}});
    kernel_.root.children.push_back(std::move(node));
    return load(first_local + local, DType::i32, {offset});
  }

  // The other operand of the first sum, a word at a time: where it lies so already, else rounded into a local.
  Expr words_of_columns(Expr operand, Expr value, const Halved& halves, const Axes& a) {
    const Expr as_it_lies = addressed(value, a, -1);
    if (operand->dtype == DType::bf16 && lies_along(as_it_lies, halves.by)) {
      const Expr from = as_it_lies->args[0];
      const Expr at = rewrite(from->args[0],
                              [&](Expr n) { return n == axis(halves.by.axis) ? axis(halves.word.axis) * Expr(2) : Expr(); });
      return load(from->id, DType::i32, {simplify(at, bounds(a))});
    }
    return words_beside("columns, rounded", as_it_lies, a.kept.back(), halves, a);
  }

  // The words of a value for each step of another loop, in a local: [words, that loop, up to a whole vector].
  Expr words_beside(std::string comment, Expr value, const Loop& beside, const Halved& halves, const Axes& a) {
    const Expr width = ceil_div(beside.extent, lanes_) * Expr(lanes_);
    const Expr place = axis(halves.word.axis) * width + axis(beside.axis);
    const int local = make_local(DType::i32, width * halves.most);
    const int lanes = lies_along(value, beside) ? lanes_ : 1;
    LoopNode node = words_beside_each(kernel_, {first_local + local, place, word_of(value, halves, bounds(a)), {}}, halves,
                                      beside, lanes);
    node.comment = std::move(comment);
    kernel_.root.children.push_back(std::move(node));
    return load(first_local + local, DType::i32, {place});
  }

  void lower_first(const Definition& d) {
    Axes a = make_axes(d);
    Contraction c = *float_contraction_of(d, by_words_);
    if (uses_axis(c.a.load, group_.shared - 1)) std::swap(c.a, c.b);
    const bool internal = internals_.count(c.b.load->id) > 0;
    Expr rows = substitute_axes(widened(c.b.load), a.renamed), other = substitute_axes(widened(c.a.load), a.renamed);
    rows = internal ? addressed(rows, a, -1) : transpose_rows(rows, a);
    if (by_words_ && a.reduced.size() == 1 && floor_mod(a.reduced[0].extent, 2).is_int(0)) {
      const Halved depth = by_words(a);
      other = words_of_columns(c.a.load, other, depth, a);
      rows = words_of_rows("rows, rounded", rows, depth, a);
    } else {
      other = addressed(other, a, -1);
    }
    Internal in = make_internal(d);
    Expr offset = simplify(internal_offset(in, substituted(d.out_index, a.renamed), a), bounds(a));
    Expr epilogue = addressed(substitute_axes(d.epilogue, a.renamed), a, -1);
    // What the epilogue loads row by row is not a vector of neighbours, and a mask by position has no lanes: such an
    // epilogue follows in a nest of its own.
    bool by_rows = reads_position(d.epilogue);
    visit(epilogue, [&](Expr n) {
      by_rows |= n->kind == ExprKind::load && n->id < first_local && !n->args.empty() && uses_axis(n->args[0], a.lane.axis);
    });
    TiledSum sum;
    sum.kept = a.kept;
    sum.kept.push_back(a.lane);
    sum.reduced = a.reduced;
    sum.body = rows->dtype == DType::i32 ? call(Fn::dot_bf16, {other, rows}) : other * rows;
    sum.epilogue = by_rows ? load(reduced_value, DType::f32, {}) : epilogue;
    sum.offset = offset;
    sum.target = first_local + in.local;
    sum.lane_axis = a.lane.axis;
    sum.tile_axis = a.kept.back().axis;
    const Tile tile = tile_of(sum, a.kept.back().extent, Expr(rows_));
    if (sight_) {
      see_keys(tile.points, a);
      a.kept.back().extent = sum.kept.front().extent = keys_seen_;
    }
    add_sum(sum, tile);
    if (!by_rows) return;
    Expr value = rewrite(epilogue, [&](Expr n) {
      return n->kind == ExprKind::load && n->id == reduced_value ? load(first_local + in.local, DType::f32, {offset})
                                                                 : Expr();
    });
    pass_over_seen(d, a, offset, value);
    add_rows(concat("v", d.out->id, ", finished row by row"), a, a.kept, in.local, offset, value);
  }

  void lower_last(const Definition& d) {
    Axes a = make_axes(d);
    Contraction c = *tiled_contraction_of(d, by_words_);
    if (uses_axis(c.b.load, group_.shared - 1)) std::swap(c.a, c.b);
    Expr rows = addressed(substitute_axes(c.a.load, a.renamed), a, -1),
         other = addressed(substitute_axes(widened(c.b.load), a.renamed), a, -1);
    std::vector<Expr> unclamped = a.renamed;
    unclamped[static_cast<size_t>(group_.shared - 1)] = first_row_ + axis(a.lane.axis);
    int target = kernel_.argument(d.out, layout_of(d.out->id), true);
    Expr offset =
        simplify(storage_address(d.out->shape(), layout_of(d.out->id), substituted(d.out_index, unclamped)), bounds(a));
    const Loop& lane = a.kept.back();
    auto steps_by_one = [&](Expr address) {
      Expr step = stride_of(address, lane.axis);
      return bool(step) && step.is_int(1);
    };
    bool neighbours = lies_along(other, lane) && steps_by_one(offset);
    Expr tile_epilogue = addressed(substitute_axes(d.epilogue, a.renamed), a, -1);
    visit(tile_epilogue, [&](Expr n) {
      if (n->kind == ExprKind::load && !n->args.empty() && uses_axis(n->args[0], lane.axis))
        neighbours = neighbours && steps_by_one(n->args[0]);
    });
    Expr exist = row_extent_ - first_row_;
    if (!neighbours) {  // a layout that was chosen for other readers: rows one by one
      int accumulator = kernel_.next_local++;
      Loop row = a.lane;
      row.extent = rows_fit() ? Expr(rows_) : min(Expr(rows_), exist);
      LoopNode node = stage_node(d, a, {row, lane}, target, offset, rows * other,
                                 addressed(substitute_axes(d.epilogue, a.renamed), a, accumulator), accumulator);
      kernel_.root.children.push_back(std::move(node));
      return;
    }
    TiledSum sum;
    sum.kept = {a.lane, lane};
    if (by_words_) {
      const Halved keys = by_words(a);
      rows = words_of_rows("weights, rounded", rows, keys, a);
      other = words_beside("values, rounded", other, lane, keys, a);
    }
    sum.reduced = a.reduced;
    sum.body = by_words_ ? call(Fn::dot_bf16, {rows, other}) : rows * other;
    sum.epilogue = tile_epilogue;
    sum.offset = offset;
    sum.target = target;
    sum.lane_axis = lane.axis;
    sum.tile_axis = a.lane.axis;
    if (!rows_fit()) sum.stored_points = exist;
    add_sum(sum, tile_of(sum, Expr(rows_), lane.extent));
  }

  Tile tile_of(const TiledSum& sum, Expr points, Expr lane_extent) const {
    auto known = [](Expr e) { return e.if_int() ? e.as_int() : int64_t{0}; };
    SumShape shape;
    shape.points = known(points);
    shape.lanes = known(lane_extent);
    shape.steps = 1;
    for (const Loop& l : sum.reduced) shape.steps = saturating_mul(shape.steps, known(l.extent));
    if (Expr step = stride_of(sum.body->args[0]->args[0], sum.tile_axis); bool(step) && step.if_int())
      shape.point_bytes = std::abs(step.as_int()) * 4;
    return choose_tile(shape, lanes_, context_.vector_registers);
  }

  void add_sum(TiledSum& sum, const Tile& tile) {
    sum.vectors = tile.vectors;
    sum.points = tile.points;
    sum.lanes = lanes_;
    LoopNode nest;
    add_tiles(kernel_, nest, LoopKind::serial, sum, *context_.symbols);
    kernel_.root.children.push_back(std::move(nest));
  }

  void set_cost() {
    auto typical = [](Expr e) { return e.if_int() ? static_cast<double>(e.as_int()) : 256.0; };
    double flops = 0;
    for (const Definition& d : group_.stages) {
      if (!float_contraction_of(d, by_words_)) continue;
      double of = 2;
      for (Expr e : d.domain) of *= typical(e);
      flops += of;
    }
    double blocks = 1;
    for (const Loop& l : kernel_.root.loops) blocks *= typical(l.extent);
    kernel_.cost = std::max(1.0, flops / std::max(1.0, blocks) / 50);
  }

  const Group& group_;
  const LoweringContext& context_;
  const bool by_words_;
  int lanes_, rows_;
  Kernel kernel_;
  Expr row_extent_, first_row_;
  static constexpr int few_keys = 4;  // [guess] blocks of rows: of fewer keys, leaving some out is not worth open loops
  std::optional<KeysInSight> sight_;
  Expr keys_seen_;  // empty: all, or the scores are yet to be lowered
  std::map<int, Internal> internals_;
};

}  // namespace

Kernel lower_row_block(const Group& group, bool by_words, const LoweringContext& context) {
  return RowBlockLowering(group, by_words, context).run();
}

}  // namespace metac
