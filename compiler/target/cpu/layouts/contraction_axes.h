// The axes of a contraction's definition, made plain before layouts are chosen.
#pragma once
#include <functional>

#include "compiler/target/cpu/tiles/register_tile.h"
#include "compiler/tensor/contraction.h"

namespace metac {

// Removes axes of extent 1 that nothing is stored along.
void drop_unit_axes(Definition& d, const std::vector<Symbol>& symbols);
// Groups of fewer channels than a vector has lanes become one axis with their channels. True if it did so.
bool merge_narrow_group(Definition& d, int lanes, const std::vector<Symbol>& symbols);

// Reduced axes lose their ends where no condition of an operand can hold: taps of a dilated window that never meet the data.
void drop_dead_taps(Definition& d, const std::vector<Symbol>& symbols);

// Windows that are read from their end (point - tap, as gradients of convolutions do) are read from their beginning.
void turn_windows(Definition& d, const std::vector<Symbol>& symbols);

// A reduced axis that is contiguous in the data: runs of a cache line's 16 (or what divides the axis) become the innermost
// axis, inside of window axes, so that a window's neighbours read the same cache lines while these are near. data_address:
// of c.a.load in its storage.
void split_reduced_axis(Definition& d, Contraction& c, Expr data_address, const std::vector<Symbol>& symbols);
// What the register tile is chosen by; the tiled axis is an estimate of what axes will collapse (the schedule decides).
SumShape sum_shape(const Definition& d, const Contraction& c, int lanes_axis, Expr data_address,
                   const std::vector<Symbol>& symbols);
// Are divisions in that address only of axes that the lanes' operand has too, and so outside of the tile?
bool linear_in_the_tile(const Definition& d, const Contraction& c, int lanes_axis, Expr data_address,
                        const std::vector<Symbol>& symbols);

// How far a tile of so many points of an open axis may reach beyond the data's last element. 0: not at all, or too far.
int64_t elements_behind(const Definition& d, const Contraction& c, Expr data_address, int points,
                        const std::vector<Symbol>& symbols);

}  // namespace metac
