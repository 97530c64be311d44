// What an element-wise stage computes anew for each channel although it does not depend on the channel: the places and
// weights of samples. It is computed once for a run of points, into tables, and the loop over channels runs between the
// points' blocks and the points:
//
//   for c, p: out[c, p] = data[c, place(p)] * weight(p)
// becomes
//   for blocks of p { for p { places[p] = place(p); weights[p] = weight(p) }
//                     for c, p: out[c, p] = data[c, places[p]] * weights[p] }
#pragma once
#include <optional>

#include "compiler/loops/loop_tree.h"
#include "compiler/loops/stage_lowering.h"

namespace metac {

struct HoistedTables {
  std::vector<Loop> around;  // outer loops and blocks of points
  std::vector<Loop> points;  // of one block
  std::vector<Local> tables;
  std::vector<Expr> entries;  // of each, over the loops around and the points
  Expr place;                 // in a table, over the points
  Stage channels;             // without the loops around: channels, then points
};

// `stage` is element-wise with known extents; `bounds` are those of its loops. Empty where it would not pay, or an entry
// might read what does not exist.
std::optional<HoistedTables> hoist_tables(Kernel& kernel, const Stage& stage, const Bounds& bounds);

}  // namespace metac
