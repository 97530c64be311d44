// The order of a contraction's outer loops. The operand with the lanes (the weights) is walked panel by panel, a panel
// being what one block of lanes needs; the other operand (the data) in blocks of points; a block of points uses all panels:
//
//   for blocks of points { for panels { for tiles of the block { registers } } }
//
// A block that stays in the second-level cache is read from memory once, and every panel once per block. With one block
// (all points) the weights are read once; with blocks of one tile they are read for each.
//
// Panels may have data of their own: groups of a convolution, channels of a depthwise one. With channels last they read the
// same runs of memory in pieces, which a block that stays in the cache makes one stream.
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "compiler/ir/expr.h"

namespace metac {

// How many different elements an address takes while each axis runs over its range (axes that are not listed stand still).
// Axes whose steps are small multiples of each other overlap, as the window of a convolution does with its points. Empty
// where the address is not linear in the axes.
std::optional<double> distinct_elements(Expr address, const std::map<int, int64_t>& ranges);

struct PointsLoop {
  int axis = 0;         // that the loop advances
  int64_t step = 1;     // by how many points
  int64_t extent = 0;   // iterations; 0: not known
  int64_t longest = 0;  // iterations that a run may have where it decides: blocks are cut for runs that no cache holds, and
                        // shorter ones are one block; 0: it has `extent`
};

// One loop over points is cut: `inner` iterations of it are inside the panels, together with all loops further in. Where
// `inner` does not divide the loop's extent, the last block has fewer.
struct BlockOfPoints {
  size_t loop = 0;
  int64_t inner = 0;    // 0: all of them
  bool shared = false;  // so that workers have some each; of an extent that a run decides it is so many blocks at least
};

struct PanelSizes {
  int64_t panels = 1, bytes = 0;  // of one
  int64_t resident = 0;           // how much of a panel is in the cache at once: all, or a chunk of the sum
  std::map<int, int64_t> ranges;  // axes that run inside of a tile: the reduced ones
  int64_t piece = 0;              // bytes of a run of memory that one panel reads; 0: every panel reads all data
  int64_t lanes = 0;              // results of one for each point
};

// loops: from the outermost to the innermost. The block with the least traffic beyond a cache of `cache_bytes`.
BlockOfPoints choose_block_of_points(std::vector<PointsLoop> loops, Expr data, const PanelSizes& panel, int64_t cache_bytes);

}  // namespace metac
