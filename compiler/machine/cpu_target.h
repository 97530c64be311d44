// The CPU that kernels are made for: an instruction set and the caches of a processor that has it.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compiler/machine/instruction_sets.h"

namespace metac {

struct CpuTarget {
  std::string name = "x86-64-v4";  // of the row in instruction_sets()
  int vector_bytes = 64, vector_registers = 32;
  bool byte_products = false, bf16_products = false, matrix_products = false;
  int64_t l2_bytes = 1 << 20, l3_bytes = 16 << 20;  // of a core; of all that share it

  const InstructionSet& instructions() const;
  // As an identifier and a folder's name: "x86_64_v4_vnni".
  std::string tag() const;
};

// "native" (this machine's, with its second-level cache) or the name of a row. Throws CompileError naming the known ones.
CpuTarget cpu_target(const std::string& name);

// Can this machine run code for `cpu`? Answered by what the machine has, not by how wide its vectors are.
bool runs_here(const CpuTarget& cpu);

// The same of a machine that answers `has` for the names of features and levels, and the best target of such a machine.
using CpuFeatures = std::function<bool(std::string_view feature)>;
bool runs_on(const CpuFeatures& has, const CpuTarget& cpu);
CpuTarget best_cpu(const CpuFeatures& has);

// Is `a` to be taken before `b` where a machine can run both? A strict weak order.
bool is_better(const CpuTarget& a, const CpuTarget& b);

}  // namespace metac
