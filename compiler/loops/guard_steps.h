// A reduction's conditions in front of its inner loops.
#pragma once
#include "compiler/loops/loop_tree.h"

namespace metac {

// `steps` combines select(condition, value, identity) with a local. What of the condition the outer loops decide becomes a
// guard of the inner ones: padding then costs a test for each row of a window and not for each element.
LoopNode guard_steps(LoopNode steps, Expr identity);

}  // namespace metac
