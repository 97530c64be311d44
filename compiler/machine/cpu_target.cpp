#include "compiler/machine/cpu_target.h"

#include <unistd.h>

#include <algorithm>

#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

CpuTarget target_of(const InstructionSet& row) {
  CpuTarget cpu;
  cpu.name = row.name;
  cpu.vector_bytes = row.vector_bytes;
  cpu.vector_registers = row.vector_registers;
  cpu.l2_bytes = row.l2_bytes;
  cpu.byte_products = row.byte_products;
  cpu.bf16_products = row.bf16_products;
  cpu.matrix_products = row.matrix_products;
  return cpu;
}

// Both the features by name and the level as a whole, which has more of them than every compiler can name.
bool has_all(const CpuFeatures& has, const InstructionSet& row) {
  if (row.march != "x86-64" && !has(row.march)) return false;
  return std::all_of(row.features.begin(), row.features.end(), has);
}

}  // namespace

const InstructionSet& CpuTarget::instructions() const {
  const InstructionSet* row = instruction_set(name);
  METAC_ASSERT(row, "no instruction set is called ", name);
  return *row;
}

std::string CpuTarget::tag() const {
  std::string tag = name;
  for (char& c : tag)
    if (c == '-' || c == '+') c = '_';
  return tag;
}

CpuTarget cpu_target(const std::string& name) {
  if (name == "native") {
    CpuTarget cpu = best_cpu(has_here);
    if (const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE); bytes > 0) cpu.l2_bytes = bytes;
    return cpu;
  }
  if (const InstructionSet* row = instruction_set(name)) return target_of(*row);
  std::string known = "native";
  for (auto row = instruction_sets().rbegin(); row != instruction_sets().rend(); ++row) known += concat(", ", row->name);
  fail("--cpu ", quoted(name), " is not known; known are ", known);
}

bool runs_on(const CpuFeatures& has, const CpuTarget& cpu) { return has_all(has, cpu.instructions()); }

CpuTarget best_cpu(const CpuFeatures& has) {
  for (const InstructionSet& row : instruction_sets())
    if (has_all(has, row)) return target_of(row);
  METAC_ASSERT(false, "a machine that runs no instruction set");
}

bool runs_here(const CpuTarget& cpu) { return runs_on(has_here, cpu); }

bool is_better(const CpuTarget& a, const CpuTarget& b) { return &a.instructions() < &b.instructions(); }

}  // namespace metac
