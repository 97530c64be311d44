// Index-set splitting: the iterations of a loop are cut where comparisons, minima, maxima and remainders of its index
// change, so that inside of a piece they are constants or linear: a window inside of its padding, a triangle on either side
// of its diagonal, one repetition of a tile.
#pragma once
#include <vector>

#include "compiler/loops/loop_tree.h"

namespace metac {

struct IndexPiece {
  Expr start, extent;             // iterations start .. start + extent - 1 of the loop
  std::vector<Expr> expressions;  // what was given, over the loop's axis, with what is decided in the piece put in
  bool decided = false;           // nothing in the expressions depends on the index but by linear addresses
};

// The pieces in order; together they are the loop. Those that are not decided, or have fewer than `least` iterations of
// their own, are joined with their like. Empty where less than half of the iterations would be in decided pieces; of an open
// loop, where no decided piece grows with it.
std::vector<IndexPiece> split_index_set(const Loop& loop, const std::vector<Expr>& expressions,
                                        const std::vector<Loop>& inner, const Bounds& bounds, int64_t least);

}  // namespace metac
