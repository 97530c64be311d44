// Which weights stay on a GPU and which are copied in step by step, where not all of them fit into the budget of memory.
#pragma once
#include <cstdint>

#include "compiler/program/program.h"

namespace metac {

// Fills program.loads and program.window_bytes, so that run_bytes(program) is at most `budget`. False: that cannot be, and
// the program is as it was. A program with repeated steps at the top level is none for which it can.
//
// The window has two parts. In front a ring: weights are put behind one another and overwrite the oldest, none that is read
// by the step at hand or the one before it, because what a step reads is copied in while the one before it runs. Behind it
// what stays: weights that many steps read, then small ones.
bool plan_swaps(CompiledProgram& program, int64_t budget);

}  // namespace metac
