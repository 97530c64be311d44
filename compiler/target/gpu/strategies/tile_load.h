// A part of an operand on its way into the shared memory of a block, where a product reads it again and again.
#pragma once
#include <functional>

#include "compiler/loops/loop_tree.h"

namespace metac {

// One of the two directions of a tile.
struct TileDirection {
  int64_t count = 0;   // elements of the tile
  Expr first, size;    // index of its first element; how many there are, behind which the tile is zero
  int64_t stride = 0;  // in shared memory from one to the next
};

struct TileLoad {
  int local = 0;
  DType dtype = DType::f32;
  Expr place;                                          // of its first element in the local
  TileDirection rows, along;                           // neighbouring threads follow `along`
  std::function<Expr(Expr row, Expr along)> value_at;  // of two indices, in element addresses of arguments
};

// Elements that only move are copied while their threads go on (Assign::copied): 16 bytes at once where neighbours are
// neighbours in both places, begin at multiples of that and are inside together, else 8, else 4. What is computed on the
// way, or is narrower, is stored element by element. Kernel axes are taken from `kernel` and bounded in `bounds`.
LoopNode load_tile(Kernel& kernel, Bounds& bounds, const TileLoad& load);
bool is_copied(const LoopNode& loaded);

}  // namespace metac
