// A CompiledProgram as readable C++ tables: the text of src/program.cpp and src/prepare.cpp.
#pragma once
#include <string>

#include "compiler/program/program.h"

namespace metac {

// Definitions of the tables in an unnamed namespace (their names end in `_table`), then `const Program NAME = {...};`.
// `label` is what the names of kernels begin with in profiles: "vjp." where a library has several functions.
std::string program_text(const CompiledProgram& program, const std::string& name, const std::string& label = "");

// An extent as an expression over n0, n1, ...: for comments.
std::string extent_text(const CompiledProgram& program, const rt::Extent& extent);

// What stands behind a port: its dims where they are constant, -1 elsewhere.
std::vector<int64_t> constant_dims(const CompiledProgram& program, const CompiledPort& port);

// What the C interface says of a port.
struct PortRow {
  std::string name;  // untrusted
  DType dtype = DType::f32;
  std::vector<int64_t> dims;           // -1: open
  std::vector<std::string> dim_names;  // one per dim
};
std::vector<PortRow> port_rows(const CompiledProgram& program, const std::vector<CompiledPort>& ports);
// A table of them: `const PREFIX_port TABLE[] = {...};`
std::string ports_text(const std::vector<PortRow>& ports, const std::string& table, const std::string& prefix);

}  // namespace metac
