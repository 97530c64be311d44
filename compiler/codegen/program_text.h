// A CompiledProgram as readable C++ tables: the text of src/program.cpp and src/prepare.cpp.
#pragma once
#include <string>

#include "compiler/kernel/program.h"

namespace metac {

// Definitions of the tables in an unnamed namespace (their names end in `_table`), then `const Program NAME = {...};`.
std::string program_text(const CompiledProgram& program, const std::string& name);

// An extent as an expression over n0, n1, ...: for comments.
std::string extent_text(const CompiledProgram& program, const rt::Extent& extent);

// What stands behind a port: its dims where they are constant, -1 elsewhere.
std::vector<int64_t> constant_dims(const CompiledProgram& program, const CompiledPort& port);

// Rows of NAME_port tables for the C interface: `const net_port input_ports[] = {...};`
std::string ports_text(const CompiledProgram& program, const std::vector<CompiledPort>& ports, const std::string& table, const std::string& prefix);

}  // namespace metac
