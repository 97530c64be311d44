// The axes of a contraction's definition, made plain before layouts are chosen.
#pragma once
#include "compiler/kernel/definition.h"

namespace metac {

// Removes axes of extent 1 that nothing is stored along.
void drop_unit_axes(Definition& d, const std::vector<Symbol>& symbols);
// Groups of fewer channels than a vector has lanes become one axis with their channels. True if it did so.
bool merge_narrow_group(Definition& d, int lanes, const std::vector<Symbol>& symbols);

}  // namespace metac
