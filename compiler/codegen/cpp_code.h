// Prints an op that is the user's C++ as a kernel of one task.
#pragma once
#include "compiler/ir/graph.h"
#include "compiler/kernel/program.h"

namespace metac {

// What stands before the user's text in a kernel, and in no other: a text that does not compile is then the user's.
extern const char* const users_code_mark;

// `name` is the kernel's. Buffers are the op's inputs, then its output, all row-major.
KernelSource print_code(const Op& op, const std::string& name, const std::vector<Symbol>& symbols);

}  // namespace metac
