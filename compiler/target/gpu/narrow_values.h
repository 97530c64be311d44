// On a GPU: values that are rounded to a half type and stored widened are stored narrow. Fusion takes the conversion in
// front of a product (half types are computed with in float32) for the last of the element-wise ops behind the product
// before. Then the next product would read float32, twice the bytes, which neither tensor cores nor libraries multiply with
// half types. Here, where all kernels are known, readers convert.
#pragma once
#include "compiler/region/fusion/fuse.h"

namespace metac {

// `ops`: of the region, before fusion: the value in front of a conversion is what is stored. Where there is no such value (a
// weight that is rounded, widened and turned around) `graph` gets one; null: that stays wide.
void narrow_values(FusedRegion& region, const std::vector<Op*>& ops, const Needed& needed,
                   const std::vector<Symbol>& symbols, Graph* graph);

}  // namespace metac
