// The CPUs that kernels are made for, a row each (docs/adding_a_cpu.md). What a row says is all that the rest of the
// compiler knows of it: strategies ask for widths, registers and products, builds for flags, libraries for the features to
// test.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace metac {

struct InstructionSet {
  std::string_view name;   // as --cpu spells it: "x86-64-v4+vnni"
  std::string_view march;  // -march of g++ and clang, target-cpu of LLVM, a level that __builtin_cpu_supports knows
  int vector_bytes = 16;
  int vector_registers = 16;
  int64_t l2_bytes = 256 << 10;            // second-level cache of a core: the smallest that is common among such machines
  bool byte_products = false;              // an instruction adds sums of four products of bytes to int32
  bool bf16_products = false;              // and one sums of two products of bfloat16 to float32
  bool matrix_products = false;            // tile registers multiply matrices of both (runtime/device/matrix.h)
  std::vector<std::string_view> flags;     // beside -march, as g++ and clang spell them: "-mavx512vnni"
  std::vector<std::string_view> features;  // what a machine must have, as __builtin_cpu_supports spells them
};

// The best ones first: of those that a machine can run the first is taken.
const std::vector<InstructionSet>& instruction_sets();
// Null: there is none of that name.
const InstructionSet* instruction_set(std::string_view name);

// Has this machine that feature or level? Of those that rows name.
bool has_here(std::string_view feature);

}  // namespace metac
