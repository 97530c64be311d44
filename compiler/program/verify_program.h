// Is everything there when a step reads it?
#pragma once
#include "compiler/program/program.h"

namespace metac {

// Aborts with METAC_ASSERT where a step reads a symbol that has no value yet (in its counts, in the sizes of its operands or
// in its kernel) or memory that nothing has written: the executor would take what an earlier run left there.
void verify_program(const CompiledProgram& program);

}  // namespace metac
