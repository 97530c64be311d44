// A sum of products in register tiles: `vectors` vectors along one axis by `points` points of another stay in registers
// while the reduced loops run. Whole kernels (lower_contraction) and stages of larger ones (lower_row_block) are made of it.
#pragma once
#include "compiler/loops/loop_tree.h"
#include "compiler/tensor/contraction.h"

namespace metac {

// The taps of a window that read the border of zeros around the data: where those of a whole tile do, they add nothing.
struct WindowTaps {
  int axis = 0;        // reduced
  Expr place, extent;  // what the data is read at along one of its axes, over kernel axes, and how long it is there
};

// How a sum goes through tile registers (matrix_sum.h): so many words of a point at once; bytes from point to point of the
// first factor, and from step to step of the second one.
struct MatrixSteps {
  int words = 1;
  int64_t data_step = 0, packed_step = 0;
};

struct TiledSum {
  std::vector<Loop> kept, reduced;    // kernel axes; kept in the order of the result's memory, outermost first
  Expr body, epilogue, offset;        // addressed; body is a product whose second factor has the lanes
  int target = 0;                     // argument or first_local + local that is stored to
  int lane_axis = 0, tile_axis = -1;  // kernel axes; -1: no axis is tiled
  int vectors = 1, points = 1;        // the tile wanted; fewer points where the axis has fewer
  int lanes = 16;                     // of a vector
  int parts = 0;     // how many of the outermost reduced loops go through parts of the sum, each summed by itself
                     // (partial_sums.h) and added in the result's memory; the epilogue is the sum alone then
  int unrolled = 0;  // how many of the innermost reduced loops are printed out
  int run_axes = 0;  // > 0: so many of the innermost reduced loops go through a run of steps. Each run is summed by itself,
  Expr of_run;       // in registers of its own, as load(reduced_value), and what is added is this
  Expr in_step;      // what a step adds, where that is not the body but a sum of several such products
  DType total() const { return of_run ? of_run->dtype : body->dtype; }
  bool widened = false;  // the second factor is worked out, panel by panel, in the worker's scratch memory, from where all
                         // tiles of a block of points read it
  bool lanes_in_both = false;
  int64_t cache_bytes = 0;            // > 0: loops over points are blocked for a cache of that size
  int64_t prefetch_bytes = 0;         // the second factor lies in panels, one per block of lanes, each behind the other:
                                      // the next one is asked for if it is no larger than this
  bool reaches = false;               // what is left of an open axis is a tile of more points, in memory that goes on
  std::vector<WindowTaps> taps;       // loops over these leave out those that add nothing
  std::optional<MatrixSteps> matrix;  // tiles are in tile registers, the innermost reduced loop goes through their words
  Expr stored_points;                 // points of the tiled axis from here on are computed and not stored; empty: all exist
};

struct AddedTiles {
  int points = 1;     // of a full tile
  double serial = 1;  // tiles that one iteration of the parallel loops goes through, in chunks of the sum
};

// Adds the loops over tiles, of the given kind, and the variants of the tile's body (full, rest of the tiled axis, last
// lanes) to `nest`. A blocked sum whose panel is too large for the cache is taken in chunks: all tiles of the block add a
// chunk, summed by itself, before the next is read; the sums wait in the worker's scratch memory meanwhile.
AddedTiles add_tiles(Kernel& kernel, LoopNode& nest, LoopKind kind, const TiledSum& sum, const std::vector<Symbol>& symbols);

}  // namespace metac
