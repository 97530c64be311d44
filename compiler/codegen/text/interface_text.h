// What a library's header says of its model.
#pragma once
#include <string>

#include "compiler/codegen/text/fill_template.h"
#include "compiler/program/program.h"

namespace metac {

// Throws CompileError where an input or output is none that the C interface carries: strings, more dims than a tensor has.
void check_ports(const CompiledProgram& run);

// A comment line for each input, output and state: name, dtype, dims.
std::string port_comment(const CompiledProgram& run);

// The queue of the library's interface: one that makes batches where requests have rows that one run can share, else one
// that says why there are none.
void fill_queue(const CompiledProgram& run, TemplateValues& values);

}  // namespace metac
