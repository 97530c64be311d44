// Chooses how Vars lie in memory and which operands of contractions are packed.
#pragma once
#include "compiler/region/fuse.h"
#include "compiler/target/compile_options.h"

namespace metac {

// May add copies and packing kernels to `region` (run-time operands) and `prepare` (parameters); returns the Vars that
// prepare computes in addition.
std::vector<Var*> choose_layouts(Graph& graph, FusedRegion& region, FusedRegion& prepare, Layouts& layouts,
                                 const Needed& needed, const std::function<bool(const Var*)>& is_constant,
                                 const CompileOptions& options);

}  // namespace metac
