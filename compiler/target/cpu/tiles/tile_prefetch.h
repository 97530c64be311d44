// What the tiles of a sum of products (tiled_sum.h) ask memory for while they compute.
#pragma once
#include <optional>

#include "compiler/target/cpu/tiles/tiled_sum.h"

namespace metac {

// Of one panel: what a block of lanes needs of the second factor. Loops of unknown extent count 64.
int64_t panel_elements(const TiledSum& sum);

// While the tiles of one panel are computed, the next panel comes from memory: each iteration of `steps`, the loops of the
// sum, asks for a piece, so that all tiles together ask for all of it, however many a run has. In a panel that no cache
// holds a tile asks ahead of itself. tiles: the loops that go through the panel's tiles; first_lane: where the panel begins.
// A node for the body of `steps`, where it pays.
std::optional<LoopNode> prefetch_panel(const TiledSum& sum, const std::vector<Loop>& tiles, const std::vector<Loop>& steps,
                                       Expr first_lane, const Bounds& bounds, const std::vector<Symbol>& symbols);

}  // namespace metac
