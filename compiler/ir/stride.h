// How far an index moves when an axis advances.
#pragma once
#include "compiler/ir/expr.h"

namespace metac {

// The step of an offset when the axis advances by one, if that does not depend on the axis; else empty.
Expr stride_of(Expr offset, int axis_id);

}  // namespace metac
