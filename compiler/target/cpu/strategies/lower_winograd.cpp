#include "compiler/target/cpu/strategies/lower_winograd.h"

#include <algorithm>

#include "compiler/ir/walks.h"
#include "compiler/loops/loop_transforms.h"
#include "compiler/machine/cpu_costs.h"
#include "compiler/support/diagnostic.h"
#include "compiler/target/cpu/strategies/cook_toom.h"
#include "compiler/target/cpu/tiles/tiled_sum.h"
#include "compiler/tensor/contraction.h"

namespace metac {
namespace {

class WinogradLowering {
 public:
  WinogradLowering(const Group& group, const WinogradPlan& plan, const LoweringContext& context)
      : d_(group.stages[0]),
        plan_(plan),
        context_(context),
        lanes_(context.vector_bytes / 4),
        m_(plan_.outputs),
        size_(plan_.outputs + 2),
        transform_(cook_toom(plan_.outputs, 3)) {}

  Kernel run() {
    kernel_.nodes = d_.nodes;
    Contraction c = *float_contraction_of(d_);
    if (c.b.load->id != plan_.transformed) std::swap(c.a, c.b);
    data_ = c.a.load;
    weights_ = c.b.load;
    make_loops();
    make_scratch();
    transform_data();
    LoopNode blocks;
    blocks.loops = {lane_block_};
    multiply(blocks);
    transform_back(blocks);
    kernel_.root.children.push_back(std::move(blocks));
    kernel_.schedule.push_back(
        concat("minimal filtering F(", m_, "x", m_, ", 3x3): ", size_ * size_, " products instead of ", 9 * m_ * m_));
    kernel_.schedule.push_back(concat("blocks of ", tiles_, " tiles stay in the cache"));
    estimate();
    return std::move(kernel_);
  }

 private:
  const Layout& layout_of(int var) const {
    static const Layout plain;
    auto found = context_.layouts->find(var);
    return found == context_.layouts->end() ? plain : found->second;
  }

  Loop loop(Expr extent, LoopKind kind = LoopKind::serial) { return {kernel_.next_axis++, extent, kind, {}}; }

  int64_t extent(int k) const { return d_.domain[static_cast<size_t>(k)].as_int(); }
  bool is_whole(int k) const { return floor_mod(d_.domain[static_cast<size_t>(k)], m_).is_int(0); }

  // ---- loops over blocks of tiles ----
  void make_loops() {
    tiles_y_ = ceil_div(d_.domain[static_cast<size_t>(plan_.y)], m_);
    tiles_x_ = ceil_div(d_.domain[static_cast<size_t>(plan_.x)], m_);
    const Expr images = plan_.image < 0 ? Expr(1) : d_.domain[static_cast<size_t>(plan_.image)];
    if (by_rows()) {
      all_ = images * tiles_y_;
      of_block_ = plan_.rows;
      tiles_ = static_cast<int>(plan_.rows * tiles_x_.as_int());
    } else {
      all_ = by_images() ? images : images * tiles_y_ * tiles_x_;
      for (FilterBlocks b : plan_.by_size) {
        tiles_ = std::max(tiles_, static_cast<int>(b.tiles));
        b.up_to /= tiles_together();
        b.tiles /= tiles_together();
        sizes_.push_back(b);
      }
      of_block_ = even_blocks();
    }
    const Expr blocks = ceil_div(all_, max(of_block_, Expr(1)));
    const Expr shares = by_rows() ? Expr(plan_.lane_groups) : of_size(&FilterBlocks::lane_groups);
    outer_.resize(d_.domain.size());
    for (int k = 0; k < d_.kept(); ++k) {
      if (k == plan_.y || k == plan_.x || k == plan_.image || k == plan_.lanes_axis) continue;
      kernel_.root.loops.push_back(loop(d_.domain[static_cast<size_t>(k)], LoopKind::parallel));
      outer_[static_cast<size_t>(k)] = axis(kernel_.root.loops.back().axis);
    }
    Loop block = loop(blocks, LoopKind::parallel), groups = loop(shares, LoopKind::parallel);
    kernel_.root.loops.push_back(block);
    kernel_.root.loops.push_back(groups);
    first_of_block_ = axis(block.axis) * of_block_;
    const Shape& u = context_.var(plan_.transformed)->shape();
    block_ = u[u.size() - 1].as_int();
    channels_ = u[u.size() - 2].as_int();
    positions_axis_ = u.size() - 3 - plan_.taps.size();
    int64_t lane_blocks = u[positions_axis_ - 1].as_int();
    for (int k : plan_.taps) taps_ *= extent(k);
    METAC_ASSERT(lane_blocks % plan_.lane_groups == 0 && block_ == plan_.vectors * lanes_);
    lanes_of_group_ = lane_blocks / plan_.lane_groups;
    const Expr of_group = floor_div(Expr(lane_blocks), shares);
    lane_block_ = loop(of_group);
    lane_block_index_ = axis(groups.axis) * of_group + axis(lane_block_.axis);
  }

  // What the plan has for as many tiles as a run has.
  Expr of_size(int64_t FilterBlocks::*what) const {
    Expr value = sizes_.back().*what;
    for (size_t k = sizes_.size() - 1; k-- > 0;) {
      const FilterBlocks& b = sizes_[k];
      if (!value.is_int(b.*what)) value = select(all_ <= Expr(b.up_to), Expr(b.*what), value);
    }
    return value;
  }

  // Tiles of a block, or images: blocks are of one size, no larger than planned, and where they are few, threads can halve
  // them.
  Expr even_blocks() const {
    constexpr int64_t few = 8;
    const Expr blocks = ceil_div(all_, of_size(&FilterBlocks::tiles));
    const Expr odd = floor_mod(blocks * of_size(&FilterBlocks::lane_groups), 2);
    const Expr even = select(logical_and(Expr(1) < blocks, blocks < Expr(few)), blocks + odd, max(blocks, Expr(1)));
    return min(ceil_div(all_, even), Expr(tiles_ / tiles_together()));
  }

  void make_scratch() {
    tap_pitch_ = (channels_ + lanes_ - 1) / lanes_ * lanes_;
    pitch_ = taps_ * tap_pitch_;
    if (pitch_ % 1024 == 0) pitch_ += lanes_;  // rows of whole pages would share cache sets
    v_ = kernel_.next_local++;
    products_ = kernel_.next_local++;
    int64_t positions = size_ * size_;
    kernel_.scratch.push_back({v_, DType::f32, Expr(positions * position_stride(pitch_))});
    kernel_.scratch.push_back({products_, DType::f32, Expr(positions * position_stride(block_))});
  }

  Bounds bounds(const std::vector<Loop>& loops) const {
    Bounds b(*context_.symbols);
    for (const Loop& l : kernel_.root.loops) b.set_axis(l.axis, l.extent);
    b.set_axis(lane_block_.axis, lane_block_.extent);
    for (const Loop& l : loops) b.set_axis(l.axis, l.extent);
    return b;
  }

  // Blocks are of whole rows of tiles where these are known to be of one length, of whole images where a run decides how
  // many there are, else of tiles one after the other.
  bool by_rows() const { return plan_.by_size.empty(); }
  bool by_images() const { return plan_.whole_images; }
  int64_t tiles_together() const { return by_images() ? plan_.rows * tiles_x_.as_int() : 1; }

  // Loops over the tiles of a block, and which of them they stand at.
  std::vector<Loop> tile_loops() {
    if (!by_rows() && !by_images()) return {loop(of_block_)};
    std::vector<Loop> loops = {loop(plan_.rows), loop(tiles_x_)};
    if (by_images()) loops.insert(loops.begin(), loop(of_block_));
    return loops;
  }
  static Expr tile_at(const std::vector<Loop>& loops) {
    Expr tile = 0;
    for (const Loop& l : loops) tile = tile * l.extent + axis(l.axis);
    return tile;
  }

  // The tile that these loops stand at: image, row and column of tiles.
  struct TilePlace {
    Expr image, row, column, exists;
  };
  TilePlace place(const std::vector<Loop>& loops, const Bounds& b) const {
    Expr all = first_of_block_ + axis(loops[0].axis);
    TilePlace p;
    if (!by_rows() || !floor_mod(all_, plan_.rows).is_int(0)) {
      p.exists = all < all_;
      all = min(all, all_ - Expr(1));
    }
    if (by_images()) return {all, axis(loops[1].axis), axis(loops[2].axis), p.exists};
    const Expr row = by_rows() ? all : floor_div(all, tiles_x_);
    p.column = by_rows() ? axis(loops[1].axis) : floor_mod(all, tiles_x_);
    p.image = plan_.image < 0 ? Expr(0) : simplify(floor_div(row, tiles_y_), b);
    p.row = plan_.image < 0 ? row : simplify(floor_mod(row, tiles_y_), b);
    return p;
  }

  // What is summed: a loop for each of the plan's taps, and the channel.
  std::vector<Loop> tap_loops() {
    std::vector<Loop> loops;
    for (int k : plan_.taps) loops.push_back(loop(d_.domain[static_cast<size_t>(k)]));
    return loops;
  }
  void place_summed(std::vector<Expr>& at, const std::vector<Loop>& taps, Expr channel) const {
    for (int k = d_.kept(); k < static_cast<int>(d_.domain.size()); ++k) at[static_cast<size_t>(k)] = 0;
    for (size_t k = 0; k < taps.size(); ++k) at[static_cast<size_t>(plan_.taps[k])] = axis(taps[k].axis);
    at[static_cast<size_t>(plan_.channel)] = channel;
  }
  Expr summed_place(const std::vector<Loop>& taps, Expr channel) const {  // in V
    Expr tap = 0;
    for (const Loop& l : taps) tap = tap * l.extent + axis(l.axis);
    return tap * Expr(tap_pitch_) + channel;
  }

  // An expression of the definition at point (u, v) of the tile, its loads addressed.
  Expr at_point(Expr e, const TilePlace& p, int u, int v, Expr lane, const std::vector<Loop>& taps, Expr channel,
                const Bounds& b) {
    std::vector<Expr> at = outer_;
    at[static_cast<size_t>(plan_.y)] = p.row * Expr(m_) + Expr(u);
    at[static_cast<size_t>(plan_.x)] = p.column * Expr(m_) + Expr(v);
    if (plan_.image >= 0) at[static_cast<size_t>(plan_.image)] = p.image;
    at[static_cast<size_t>(plan_.lanes_axis)] = lane;
    place_summed(at, taps, channel);
    return simplify(addressed(substitute_axes(e, at)), b);
  }

  Expr addressed(Expr e) {
    return rewrite_loads(e, [&](Expr n, const std::vector<Expr>& indices) -> Expr {
      if (n->id == reduced_value) return {};
      Var* var = context_.var(n->id);
      int argument = kernel_.argument(var, layout_of(n->id), false);
      return load(argument, n->dtype, {storage_address(var->shape(), layout_of(n->id), indices)});
    });
  }

  // ---- straight-line transforms of vectors ----
  Expr fresh(LoopNode& node, Expr value) {
    Local local{kernel_.next_local++, DType::f32, {}};
    node.locals.push_back(local);
    node.assigns.push_back({first_local + local.id, {}, value, {}});
    return load(first_local + local.id, DType::f32, {});
  }

  // The sum of factor * in over the columns that `wanted` selects; empty where there are none.
  Expr combination(LoopNode& node, const std::vector<double>& row, const std::vector<Expr>& in,
                   const std::vector<bool>& wanted) {
    std::vector<size_t> terms;
    for (size_t k = 0; k < row.size(); ++k)
      if (wanted[k] && row[k] != 0) terms.push_back(k);
    if (terms.empty()) return {};
    // A term of factor 1 goes first: it needs no multiplication.
    std::stable_sort(terms.begin(), terms.end(), [&](size_t a, size_t b) { return (row[a] == 1) > (row[b] == 1); });
    auto scaled = [&](size_t k) { return row[k] == 1 ? in[k] : float_constant(row[k], DType::f32) * in[k]; };
    if (terms.size() == 1 && row[terms[0]] == 1) return in[terms[0]];
    Expr sum = fresh(node, scaled(terms[0]));
    for (size_t n = 1; n < terms.size(); ++n) node.assigns.push_back({sum->id, {}, scaled(terms[n]), Reduce::add});
    return sum;
  }

  // Columns of opposite points, the same but for the signs of odd rows: their inputs are added and subtracted once for all
  // rows.
  void join_columns(LoopNode& node, Matrix& matrix, std::vector<Expr>& in) {
    for (size_t j = 0; j < in.size(); ++j) {
      for (size_t k = j + 1; k < in.size(); ++k) {
        int same = 0, opposite = 0, other = 0;
        for (const std::vector<double>& row : matrix) {
          if (row[j] == 0 && row[k] == 0) continue;
          (row[j] == row[k] ? same : row[j] == -row[k] ? opposite : other) += 1;
        }
        if (other > 0 || same == 0 || opposite == 0 || same + opposite < 3) continue;
        Expr sum = fresh(node, in[j] + in[k]), difference = fresh(node, in[j] - in[k]);
        in[j] = sum;
        in[k] = difference;
        for (std::vector<double>& row : matrix) {
          const bool equal = row[j] == row[k];
          if (!equal) row[k] = row[j];
          row[equal ? k : j] = 0;
        }
      }
    }
  }

  // matrix * in. Rows of opposite points share the parts with the same and with opposite signs.
  std::vector<Expr> apply(LoopNode& node, Matrix matrix, std::vector<Expr> in) {
    join_columns(node, matrix, in);
    std::vector<Expr> out(matrix.size());
    std::vector<bool> all(in.size(), true);
    for (size_t i = 0; i < matrix.size(); ++i) {
      if (out[i]) continue;
      for (size_t j = i + 1; j < matrix.size() && !out[i]; ++j) {
        std::vector<bool> same(in.size()), opposite(in.size());
        bool pair = true;
        int same_terms = 0, opposite_terms = 0;
        for (size_t k = 0; k < in.size(); ++k) {
          double a = matrix[i][k], b = matrix[j][k];
          if (a == 0 && b == 0) continue;
          same[k] = a == b;
          opposite[k] = a == -b;
          same_terms += same[k];
          opposite_terms += opposite[k];
          pair = pair && (same[k] || opposite[k]);
        }
        if (!pair || same_terms == 0 || opposite_terms == 0 || same_terms + opposite_terms < 3) continue;
        Expr e = combination(node, matrix[i], in, same), o = combination(node, matrix[i], in, opposite);
        out[i] = fresh(node, e + o);
        out[j] = fresh(node, e - o);
      }
      if (!out[i]) out[i] = combination(node, matrix[i], in, all);
      if (!out[i]) out[i] = float_constant(0, DType::f32);
    }
    return out;
  }

  // matrix * in * transposed(matrix) of a square block of vectors.
  std::vector<std::vector<Expr>> apply_both(LoopNode& node, const Matrix& matrix, int64_t n,
                                            const std::function<Expr(int, int)>& in) {
    std::vector<std::vector<Expr>> half(matrix.size(), std::vector<Expr>(static_cast<size_t>(n))), out;
    for (int j = 0; j < n; ++j) {
      std::vector<Expr> column;
      for (int i = 0; i < n; ++i) column.push_back(fresh(node, in(i, j)));
      std::vector<Expr> done = apply(node, matrix, column);
      for (size_t i = 0; i < done.size(); ++i) half[i][static_cast<size_t>(j)] = done[i];
    }
    for (std::vector<Expr>& row : half) out.push_back(apply(node, matrix, row));
    return out;
  }

  Expr position(int i, int j) const { return Expr(static_cast<int64_t>(i) * size_ + j); }

  // Of a position's tiles, `width` elements each: an odd number of cache lines, so that the positions of one tile, which are
  // written and read together, fall into different sets of the cache.
  int64_t position_stride(int64_t width) const {
    constexpr int64_t line = cpu_costs.line_bytes / 4;
    int64_t lines = (tiles_ * width + line - 1) / line;
    return (lines + (lines % 2 == 0)) * line;
  }

  Expr scratch_at(Expr position, Expr tile, int64_t width, Expr within) const {
    return position * Expr(position_stride(width)) + tile * Expr(width) + within;
  }

  void transform_data() {
    const std::vector<Loop> tiles = tile_loops();
    Loop part = loop((channels_ + lanes_ - 1) / lanes_), lane = loop(lanes_, LoopKind::vector);
    std::vector<Loop> taps = tap_loops(), loops = tiles;
    loops.insert(loops.end(), taps.begin(), taps.end());
    loops.insert(loops.end(), {part, lane});
    Bounds b = bounds(loops);
    Expr first = axis(part.axis) * Expr(lanes_), channel = first + axis(lane.axis);
    if (channels_ % lanes_ != 0) loops.back().active = min(Expr(lanes_), Expr(channels_) - first);
    TilePlace p = place(tiles, b);
    LoopNode node;
    node.comment = "tiles of the data, transformed";
    node.loops = loops;
    Expr tile = tile_at(tiles);
    auto out =
        apply_both(node, transform_.bt, size_, [&](int i, int j) { return at_point(data_, p, i, j, 0, taps, channel, b); });
    for (int i = 0; i < size_; ++i)
      for (int j = 0; j < size_; ++j)
        node.assigns.push_back({first_local + v_,
                                simplify(scratch_at(position(i, j), tile, pitch_, summed_place(taps, channel)), b),
                                out[static_cast<size_t>(i)][static_cast<size_t>(j)],
                                {}});
    kernel_.root.children.push_back(std::move(node));
  }

  // Channels that are summed in one part, dividing them: the transform back makes rounding errors of a sum larger, and those
  // of sums of sums grow less with the number of channels.
  static constexpr int64_t longest_part = 256;
  int64_t steps_of_a_part() const {
    constexpr int64_t shortest = 16;  // shorter ones would be added in memory all the time
    for (int64_t steps = std::min(channels_, longest_part); steps >= shortest; --steps)
      if (channels_ % steps == 0) return steps;
    return channels_;
  }

  void multiply(LoopNode& blocks) {
    const int64_t steps = steps_of_a_part();
    Loop pos = loop(size_ * size_),
         tile = loop(by_images() ? Expr(tiles_together())
                     : by_rows() ? Expr(tiles_)
                                 : of_block_),
         lane = loop(block_), part = loop(channels_ / steps), step = loop(steps);
    Expr channel = steps < channels_ ? axis(part.axis) * Expr(steps) + axis(step.axis) : axis(step.axis);
    TiledSum sum;
    sum.kept = {pos, tile, lane};
    std::vector<Loop> points = {tile};
    if (by_images()) points.insert(points.begin(), loop(of_block_));
    if (by_images()) sum.kept.insert(sum.kept.begin() + 1, points[0]);
    const Expr point = tile_at(points);
    std::vector<Loop> taps = tap_loops(), loops = sum.kept;
    sum.reduced = taps;
    if (steps < channels_) sum.reduced.push_back(part);
    sum.parts = taps_ * channels_ > longest_part ? static_cast<int>(sum.reduced.size()) : 0;
    sum.reduced.push_back(step);
    loops.insert(loops.end(), sum.reduced.begin(), sum.reduced.end());
    Bounds b = bounds(loops);
    std::vector<Expr> at = outer_;
    at[static_cast<size_t>(plan_.lanes_axis)] = lane_block_index_ * Expr(block_) + axis(lane.axis);
    place_summed(at, taps, channel);
    std::vector<Expr> u;
    for (Expr e : weights_->args) u.push_back(e);
    u[positions_axis_] = axis(pos.axis);
    for (size_t k = 0; k < u.size(); ++k)
      if (k != positions_axis_) u[k] = simplify(substitute_axes(u[k], at), b);
    Var* var = context_.var(plan_.transformed);
    int argument = kernel_.argument(var, layout_of(var->id), false);
    kernel_.arguments[static_cast<size_t>(argument)].padded = true;
    Expr weights = load(argument, DType::f32, {simplify(storage_address(var->shape(), layout_of(var->id), u), b)});
    Expr data = load(first_local + v_, DType::f32, {scratch_at(axis(pos.axis), point, pitch_, summed_place(taps, channel))});
    sum.body = data * weights;
    sum.epilogue = load(reduced_value, DType::f32, {});
    sum.offset = scratch_at(axis(pos.axis), point, block_, axis(lane.axis));
    sum.target = first_local + products_;
    sum.lane_axis = lane.axis;
    sum.tile_axis = tile.axis;
    sum.vectors = plan_.vectors;
    sum.points = plan_.tile;
    sum.lanes = lanes_;
    sum.prefetch_bytes = context_.l2_bytes / 4;
    LoopNode nest;
    nest.comment = "products, position by position";
    add_tiles(kernel_, nest, LoopKind::serial, sum, *context_.symbols);
    blocks.children.push_back(std::move(nest));
  }

  void transform_back(LoopNode& blocks) {
    const std::vector<Loop> tiles = tile_loops();
    Loop vector = loop(plan_.vectors), lane = loop(lanes_, LoopKind::vector);
    std::vector<Loop> loops = tiles;
    loops.insert(loops.end(), {vector, lane});
    Bounds b = bounds(loops);
    Expr first = axis(vector.axis) * Expr(lanes_), within = first + axis(lane.axis);
    Expr first_lane = lane_block_index_ * Expr(block_) + first;
    int64_t lane_extent = extent(plan_.lanes_axis);
    LoopNode node;
    node.comment = "results of a block of lanes";
    node.loops = loops;
    if (lane_extent % lanes_ != 0)
      node.loops.back().active = max(min(Expr(lane_extent) - first_lane, Expr(lanes_)), Expr(0));
    TilePlace p = place(tiles, b);
    Expr tile = tile_at(tiles);
    auto out = apply_both(node, transform_.at, size_, [&](int i, int j) {
      return load(first_local + products_, DType::f32, {simplify(scratch_at(position(i, j), tile, block_, within), b)});
    });
    int target = kernel_.argument(d_.out, layout_of(d_.out->id), true);
    bool lanes_whole = lane_extent % block_ == 0 || (lane_extent % lanes_ != 0);
    for (int u = 0; u < m_; ++u)
      for (int v = 0; v < m_; ++v) {
        LoopNode one;
        Expr sum = out[static_cast<size_t>(u)][static_cast<size_t>(v)];
        Expr value = rewrite(at_point(d_.epilogue, p, u, v, first_lane + axis(lane.axis), {}, 0, b),
                             [&](Expr n) { return n->kind == ExprKind::load && n->id == reduced_value ? sum : Expr(); });
        std::vector<Expr> index;
        for (Expr e : d_.out_index) index.push_back(at_point(e, p, u, v, first_lane + axis(lane.axis), {}, 0, b));
        Expr offset = simplify(storage_address(d_.out->shape(), layout_of(d_.out->id), index), b);
        one.assigns.push_back({target, offset, value, {}});
        Expr exists = bool_constant(true);
        if (p.exists) exists = logical_and(exists, p.exists);
        if (!is_whole(plan_.y))
          exists = logical_and(exists, p.row * Expr(m_) + Expr(u) < d_.domain[static_cast<size_t>(plan_.y)]);
        if (!is_whole(plan_.x))
          exists = logical_and(exists, p.column * Expr(m_) + Expr(v) < d_.domain[static_cast<size_t>(plan_.x)]);
        if (!lanes_whole) exists = logical_and(exists, first_lane < Expr(lane_extent));
        exists = simplify(exists, b);
        if (!exists.is_int(1)) one.guard = exists;
        node.children.push_back(std::move(one));
      }
    blocks.children.push_back(std::move(node));
  }

  void estimate() {
    double products = static_cast<double>(size_ * size_) * tiles_ * static_cast<double>(taps_ * channels_) *
                      static_cast<double>(lanes_of_group_ * block_);
    kernel_.cost = std::max(1.0, products / (2 * lanes_) / 2.5);
  }

  const Definition& d_;
  const WinogradPlan& plan_;
  const LoweringContext& context_;
  const int lanes_;
  const int64_t m_, size_;
  const CookToom transform_;
  Kernel kernel_;
  Expr data_, weights_;
  std::vector<Expr> outer_;  // the definition's axes that are loops of the root
  int64_t block_ = 0, channels_ = 0, taps_ = 1, tap_pitch_ = 0, pitch_ = 0;
  int64_t lanes_of_group_ = 1;  // blocks of them, typically
  size_t positions_axis_ = 0;   // of U
  int tiles_ = 0, v_ = 0, products_ = 0;
  Expr tiles_y_, tiles_x_;
  std::vector<FilterBlocks> sizes_;       // by_size, in images where blocks are of these
  Expr all_, of_block_, first_of_block_;  // rows of tiles, or tiles, or images
  Expr lane_block_index_;
  Loop lane_block_;
};

}  // namespace

Kernel lower_winograd(const Group& group, const WinogradPlan& plan, const LoweringContext& context) {
  return WinogradLowering(group, plan, context).run();
}

}  // namespace metac
