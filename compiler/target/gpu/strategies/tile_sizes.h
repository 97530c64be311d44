// What is assumed of sizes that are not known.
#pragma once
#include <cstdint>

#include "compiler/ir/expr.h"
#include "compiler/machine/gpu_costs.h"

namespace metac {

inline int64_t size_or_many(Expr e) { return e.if_int() ? e.as_int() : gpu_costs.unknown_extent; }

}  // namespace metac
