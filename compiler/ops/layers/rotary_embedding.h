// Rotary positions: pairs of elements of each head are rotated by an angle that depends on the position.
#pragma once
#include <functional>

#include "compiler/ir/graph.h"

namespace metac {

struct Rotation {
  Dim rotated;               // elements of a head that are rotated; the others stay
  bool interleaved = false;  // pairs are neighbours, else (d, d + rotated / 2)
  // A table as operands of one Reindex and the index that leads to pair `pair` of the element at axes (0: batch, 2:
  // position).
  struct Angle {
    std::vector<Var*> operands;
    std::vector<Expr> indices;
  };
  std::function<Angle(Expr pair)> cosine, sine;
};

// x [B, heads, S, D] of a floating-point dtype.
Var* rotate_pairs(Graph& g, Var* x, const Rotation& rotation);

}  // namespace metac
