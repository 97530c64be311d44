// From fused regions to a CompiledProgram: kernels are lowered, scheduled and printed, Vars become buffers, ops become
// steps, memory is planned.
#pragma once
#include <map>
#include <set>

#include "compiler/program/program.h"
#include "compiler/region/fusion/fuse.h"
#include "compiler/target/compile_options.h"

namespace metac {

struct ProgramInput {
  Var* var;
  std::string name;
};

struct ProgramRequest {
  const Graph* graph = nullptr;
  const NestedRegions* regions = nullptr;  // nested ones; the top level is `top`
  const FusedRegion* top = nullptr;
  std::vector<ProgramInput> inputs, outputs;
  std::vector<std::pair<size_t, size_t>> next_values;  // as in CompileOptions
  std::map<int, int64_t> weight_offsets;               // Var id -> offset in the weights block
  int64_t weight_bytes = 0;
  const Layouts* layouts = nullptr;
  const CompileOptions* options = nullptr;
  const Target* target = &target_cpu();
  bool with_requirements = true;
  std::string kernel_prefix = "k";
};

CompiledProgram build_program(const ProgramRequest& request);

}  // namespace metac
