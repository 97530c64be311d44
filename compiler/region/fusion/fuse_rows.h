// Row fusion: reductions and what reads their results at the same row share a kernel (softmax, layer norm).
#pragma once
#include "compiler/region/fusion/fuse.h"

namespace metac {

void fuse_rows(FusedRegion& region, const std::set<const Var*>& needed, const std::vector<Symbol>& symbols);

}  // namespace metac
