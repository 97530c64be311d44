// Constructors without canonicalisation, for the canonicaliser itself (compiler/ir/canonical.cpp).
#pragma once
#include "compiler/ir/expr.h"

namespace metac {

Expr raw_call(Fn fn, std::vector<Expr> args, DType dtype);
Expr raw_cast(Expr value, DType dtype);

}  // namespace metac
