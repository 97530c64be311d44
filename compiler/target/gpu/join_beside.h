// Items that a vendor library may do in one call come to be one: a product, and what the library does beside it
// (target/gpu/vendor/library_beside.h). One of the two moves to the other's place, so nothing between them may make what it
// reads, or read what it makes.
#pragma once
#include "compiler/region/fusion/fuse.h"

namespace metac {

FusedRegion join_beside(FusedRegion region, const LoweringContext& context);

}  // namespace metac
