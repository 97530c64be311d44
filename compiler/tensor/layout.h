// How the elements of a Var lie in memory: a Reindex of the value onto its storage. Plain is row-major. Other layouts
// store the axes in another order (channels last: N, H, W, C), may surround axes with a halo of zeros (of the zero
// point, where bytes are stored), so that padded convolutions read without conditions, and may leave a gap after each row of
// the innermost axis, so that rows whose stride is a multiple of a page do not fall into the same cache sets. What lies in
// gaps is never read.
//
// A state that grows in its place (State::capacity) has storage that is longer along one axis than the data.
#pragma once
#include <vector>

#include "compiler/ir/graph.h"

namespace metac {

struct Layout {
  std::vector<int> order;              // axes, outermost first; empty: row-major
  std::vector<int64_t> before, after;  // halo per axis; empty: none
  int64_t gap = 0;                     // elements after each row of the innermost axis
  int64_t fill = 0;                    // value of the halo
  int grown_axis = -1;                 // along which the storage has room for `capacity`; -1: as much as there is data
  Expr capacity;
  int64_t behind = 0;  // elements after the last one: tiles that reach beyond a row read them, for nothing

  bool has_halo() const;
  bool holds_halo_of(const Layout& other) const;  // the same values around the data, as far out at least
  bool is_plain() const { return order.empty() && !has_halo() && gap == 0 && grown_axis < 0; }
  bool operator==(const Layout& other) const = default;
};

int innermost_axis(const Layout& layout, int rank);             // whose neighbours are neighbours in memory
Shape storage_shape(const Shape& shape, const Layout& layout);  // in storage order, halo and gap included
Expr storage_elements(const Shape& shape, const Layout& layout);
// The element offset of the logical `indices`.
Expr storage_address(const Shape& shape, const Layout& layout, const std::vector<Expr>& indices);

}  // namespace metac
