// Calls of constants, computed: as the kernels compute them, except that float ones are computed in double and rounded
// once.
#pragma once
#include <vector>

#include "compiler/ir/expr.h"

namespace metac {

// All arguments are float constants, the last of the call's dtype. Empty: not folded (functions whose result depends on who
// computes it).
Expr fold_float(Fn fn, const std::vector<Expr>& args);

// All arguments are integer or boolean constants, the last of the call's dtype. Numbers wrap around at 64 bits (constructors
// of constants at those of the dtype); a division by 0 is 0. Empty: not folded.
Expr fold_int(Fn fn, const std::vector<Expr>& args);

}  // namespace metac
