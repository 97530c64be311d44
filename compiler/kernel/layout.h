// How the elements of a Var lie in memory. Plain is row-major. A blocked layout stores one axis in blocks, the block
// being the innermost dimension (NCHW with C blocked by 16: [N][C/16][H][W][16]), and may surround other axes with a halo
// of zeros, so that padded convolutions read without conditions. A layout is a Reindex of the value onto its storage:
//   storage index = (index + halo_before) with floor_div(index, block) on the blocked axis, floor_mod(index, block) last.
// Lanes of the last block beyond the extent hold anything and are never read by reductions.
#pragma once
#include <vector>

#include "compiler/ir/graph.h"

namespace metac {

struct Layout {
  int blocked_axis = -1;             // -1: none
  int64_t block = 16;
  std::vector<int64_t> before, after;  // halo per axis; empty: none

  bool has_halo() const;
  bool is_plain() const { return blocked_axis < 0 && !has_halo(); }
  bool operator==(const Layout& other) const;
};

Shape storage_shape(const Shape& shape, const Layout& layout);
Expr storage_elements(const Shape& shape, const Layout& layout);
// The element offset of the logical `indices`.
Expr storage_address(const Shape& shape, const Layout& layout, const std::vector<Expr>& indices);

}  // namespace metac
