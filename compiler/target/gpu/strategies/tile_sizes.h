// From which sizes on tiles are worth while, and what is assumed of sizes that are not known.
#pragma once
#include <cstdint>

#include "compiler/ir/expr.h"

namespace metac {

constexpr int64_t least_side = 16, enough_blocks = 128;

inline int64_t size_or_many(Expr e) { return e.if_int() ? e.as_int() : 1024; }

}  // namespace metac
