// The register tile of a sum of products: `vectors` vectors along the lanes by `points` points of the tiled axis, chosen by
// a model of what a core can do in a cycle. See docs/decisions/register_tiles.md.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/expr.h"

namespace metac {

struct Tile {
  int points = 1, vectors = 1;
  double cycles = 0;  // of one reduction step over the whole domain of tiles, for comparison
};

// What the model needs to know of a sum; 0 where it is not known.
struct SumShape {
  int64_t points = 0;          // along the tiled axis
  int64_t lanes = 0;           // elements along the lanes axis
  int64_t steps = 0;           // of the sum
  int64_t point_bytes = 0;     // from the data of a point to that of the next
  bool whole_panels = false;   // vectors must divide the lanes
  bool lanes_in_both = false;  // the data has the lanes too (depthwise): a vector of it per point
  int taps = 1;          // with lanes_in_both: so many steps are printed out that read the same elements at neighbouring
                         // points (a window); compilers then keep these elements in registers
  int most_vectors = 4;  // of a tile
  int only_vectors = 0;  // tiles of so many alone; 0: of any number
  bool bytes = false;    // sums of products of bytes: each has a second register, for a run, whatever the tile
  bool words = false;    // products of words (dot_i16), which without VNNI have a register before they are added
  bool runs = false;     // of tiles of few points, each sum has a second register, for a run of steps (TiledSum::factor)
};

// The most points of a tile whose runs of steps are summed by themselves, to be scaled behind them. Of more points, scaling
// the element that all of them use costs less than the registers.
constexpr int most_points_of_runs = 4;

// Cycles that one reduction step of a tile takes, `taps` steps at once where they are printed out.
double tile_cycles(const SumShape& sum, int points, int vectors, int vector_lanes);

// Why a sum cannot have this tile; empty: it can, whatever the model thinks of it.
std::string misfit_of(const SumShape& sum, int points, int vectors, int vector_lanes, int registers);

// cycles < 0: there is none.
Tile choose_tile(const SumShape& sum, int vector_lanes, int registers);

// Does what follows the sums (load(reduced_value) is one of them) want registers that hold others: does it call a function
// of many operations, or read many values?
bool needs_registers(Expr epilogue);

constexpr int64_t few_tiled_points = 8;  // fewer than registers want

// Which of several axes to tile, given their extents from the outermost to the innermost (0: unknown): the innermost,
// unless it has fewer points than registers want and another has more.
size_t choose_tiled_axis(const std::vector<int64_t>& extents);

}  // namespace metac
