// A CompiledProgram as the plain tables that the executor reads: what the generated library has as static constants.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "compiler/program/program.h"

namespace metac {

// Owns the tables that program() points into; `compiled` must outlive it (names and messages stay there), and `buffers`
// where they are not the program's own.
class ProgramTables {
 public:
  ProgramTables(const CompiledProgram& compiled, const std::vector<rt::KernelFunction>& kernels,
                const std::vector<rt::Buffer>& buffers);
  ProgramTables(const ProgramTables&) = delete;
  ProgramTables& operator=(const ProgramTables&) = delete;
  const rt::Program& program() const { return program_; }

 private:
  std::vector<rt::KernelFunction> kernels_;
  std::vector<rt::SymbolInfo> symbols_;
  std::string names_;
  std::vector<rt::Port> inputs_, outputs_;
  std::vector<int32_t> kernel_names_;
  std::vector<const char*> routines_, messages_;
  std::vector<std::vector<rt::RoutineAttribute>> attribute_rows_;
  std::vector<rt::RoutineAttributes> attributes_;
  rt::Program program_{};
};

}  // namespace metac
