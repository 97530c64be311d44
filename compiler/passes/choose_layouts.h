// Chooses how Vars lie in memory and which operands of contractions are packed.
#pragma once
#include "compiler/passes/fuse.h"

namespace metac {

// May add packing kernels to `top` (run-time operands) and `prepare` (parameters).
void choose_layouts(Graph& graph, FusedRegion& top, FusedRegion& prepare, Layouts& layouts, const std::function<bool(const Var*)>& is_constant,
                    const CompileOptions& options);

}  // namespace metac
