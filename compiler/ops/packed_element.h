// A number of 2 or 4 bits out of its byte: what tensors of such types and MatMulNBits's weights have in common.
#pragma once
#include <cstdint>

#include "compiler/ir/expr.h"

namespace metac {

// Number `index` of a row of such, several a byte from its low bits on; `byte`: the one that it lies in, as int32.
Expr packed_element(Expr byte, Expr index, int64_t bits);

}  // namespace metac
