#include "compiler/passes/choose_layouts.h"

namespace metac {

void choose_layouts(Graph&, FusedRegion&, FusedRegion&, Layouts&, const std::function<bool(const Var*)>&, const CompileOptions&) {}

}  // namespace metac
