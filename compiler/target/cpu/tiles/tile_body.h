// What one tile of a sum of products does (tiled_sum.h): its registers are cleared, the reduced loops add to them, and they
// are stored with the epilogue.
#pragma once
#include <optional>
#include <vector>

#include "compiler/target/cpu/tiles/tiled_sum.h"

namespace metac {

// A sum, the loops that have been put around its tiles (tiled_sum.cpp), and the tile in them.
class TileBody {
 public:
  TileBody(Kernel& kernel, const TiledSum& sum, const std::vector<Symbol>& symbols)
      : kernel_(kernel), s_(sum), symbols_(symbols) {}

 protected:
  struct Variant {
    int points;    // of the tiled axis
    Expr first;    // point of the tile
    bool partial;  // the last vectors along the lanes
    // Fewer points may be left than the tile has, though more than `sure`. The points behind those are the last ones that
    // there are, some of which the tile has twice then: read beyond the end would be numbers of any kind, and products of
    // denormal ones take some CPUs a hundred times as long. Tile registers do read beyond, from memory of the same value.
    bool reaches = false;
    int sure = 0;
  };

  LoopNode tile_body(const Variant& v);
  int64_t tiles_inside() const;  // of a panel, at most; 0: not known
  // Of the tiled axis, from a tile on.
  Expr points_left() const { return tile_extent_ - tile_block_index_ * Expr(points_); }
  Bounds bounds() const;
  Bounds bounds_of_panels() const;

  Kernel& kernel_;
  TiledSum s_;
  const std::vector<Symbol>& symbols_;
  std::vector<Loop> points_loops_;  // inside the panels, once blocked; the last one is over tiles
  Expr lane_extent_, tile_extent_, tile_block_index_, lane_block_index_;
  Expr in_block_;               // this iteration exists; empty: all do, the blocks divide the points
  std::optional<Loop> chunk_;   // of the sum
  std::optional<Loop> groups_;  // of panels
  std::vector<Loop> groups_of_a_point_;
  int waiting_ = -1;  // local: the sums between chunks
  int of_run_ = -1;   // local: the sums of a run, where these have registers of their own
  int lane_block_ = 0, tile_block_ = 0, points_ = 1;

 private:
  // The loop over taps goes over those that read data for some point of the tile.
  void leave_out_border(LoopNode& node, const WindowTaps& taps, const Variant& v) const;
  // The loops over tiles that together ask for the next panel. Where a run has few points, a tile of fewer is all it has.
  std::vector<Loop> tiles_that_ask(const Variant& v) const;
  // What the epilogue reads beside the sum, a residual say, comes from memory while the sum is taken.
  std::optional<LoopNode> prefetch_epilogue(const Variant& v, int vectors) const;
  // How many steps of the sum stand in one iteration of its innermost loop. Counting, and asking for the next panel, take
  // slots of a step that a core which is shared between two threads lacks for products.
  static int steps_at_once(const std::vector<Loop>& loops, const std::vector<Loop>& printed_out, int products);
  // Cuts a loop of a sum: what stands in it is repeated for `steps` of its iterations.
  LoopNode take_steps(Loop& loop, LoopNode inner, int steps);
  Expr tile_index(const Variant& v, Expr point) const;
  bool has_points_twice(const Variant& v) const { return v.reaches && !s_.matrix; }
  // Is this point stored? Empty: all are.
  Expr is_stored(const Variant& v, Expr point) const;
  // Sums join those of chunks and parts before them, and wait for more or are stored.
  void add_result(LoopNode& part, const Variant& v, int vectors, int accumulator);
  // The sum in tile registers, from where it goes to memory, and comes back for the next chunk.
  LoopNode matrix_sum(const Variant& v, int vectors, int sums);
  // The result of a tile with a long epilogue: its sums pass through memory, from where a loop takes them one by one.
  // Printed out for all of them, such an epilogue makes compilers keep sums in memory within the innermost loop as well.
  LoopNode store_one_by_one(const Variant& v, int vectors, int accumulator);
  // The same of sums that are in memory.
  LoopNode store_from_memory(const Variant& v, int vectors, int sums);
  // A loop over points, for what is done in memory.
  static LoopNode point_by_point(LoopNode nest);
  // The result of a tile, with all points printed out where its epilogue is short. Of points beyond the last nothing is
  // stored.
  LoopNode store_tile(const Variant& v, int vectors, int accumulator);
  // join: what waits is added; scale: what the sum of a run comes to is added; store: with the epilogue
  enum class Phase { clear, add, join, scale, wait, store };
  LoopNode tile_nest(const Variant& v, int vectors, int accumulator, Phase phase);
  // Where the sums of this tile wait between chunks.
  Expr waiting_place(Expr in_tile) const;
};

}  // namespace metac
