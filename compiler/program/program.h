// What the middle of the compiler hands to its back ends: programs as tables (owning twins of runtime/program.h) and the
// source text of their kernels. codegen/project.cpp prints it as an ahead-of-time project, jit/ compiles the same text
// in-process; both execute the same tables with runtime/executor/executor.h.
//
// A model compiles to two programs. `prepare` depends on parameters alone (packing, BatchNorm folding); its inputs are
// the raw parameters. `run` is the model; what prepare computed stands in the weights block.
#pragma once
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "compiler/ir/expr_table.h"
#include "compiler/ir/tensor.h"
#include "compiler/printing/kernel_source.h"
#include "compiler/tensor/work.h"
#include "runtime/program.h"

namespace metac {

namespace rt = metac_runtime;

struct RoutineCallAttribute {
  std::string name;
  int64_t integer = 0;
  double real = 0;
  std::string string;
  std::vector<int64_t> integers;
};

struct CompiledPort {
  std::string name;  // the model's, untrusted
  int buffer = -1;
  DType dtype = DType::f32;
  std::vector<std::string> dims;  // for people: "1", "batch", "floor_div(h + 1, 2)" (symbol names escaped)
  int overwrites = -1;            // an output: the input whose memory a caller may give it; -1: they must be apart
};

// Steps [begin, end) are repeated `count` times, and `length`, a symbol of their work, sums up to `whole` over all rounds.
struct UnevenRounds {
  int32_t begin = 0, end = 0;
  Expr count;
  int length = -1;
  Expr whole;
};

struct CompiledProgram {
  std::vector<rt::Buffer> buffers;
  std::vector<rt::Extent> extents;
  std::vector<rt::Instruction> code;
  std::vector<int32_t> operands;
  std::vector<rt::Step> steps;
  std::vector<std::string> step_comments;  // one per step: what it does, with model names already escaped
  int32_t top_level_steps = 0;
  struct SymbolRow {
    std::string name;
    int64_t min, max, divisor;
    int64_t typical = 1;  // what schedules are made for (compiler/ir/hints.h)
  };
  std::vector<SymbolRow> symbols;
  std::vector<rt::SymbolSource> sources;
  std::vector<int32_t> symbol_ids;
  std::vector<CompiledPort> inputs, outputs;
  int32_t own_outputs = 0;  // behind the caller's, ahead of the states': the library's own (Graph::last_step_of)
  std::vector<KernelSource> kernels;
  std::vector<Work> work;  // one per step: of doing it once
  std::vector<UnevenRounds> uneven;
  std::vector<rt::StepWork> work_extents;  // the same, to be evaluated while running
  std::vector<std::string> routines;
  std::vector<std::vector<RoutineCallAttribute>> attributes;
  std::vector<std::string> messages;
  std::vector<rt::Exchange> exchanges;
  std::vector<rt::StateInfo> states;
  std::vector<rt::Load> loads;  // compiler/program/memory/plan_swaps.h
  std::vector<uint8_t> needs;   // compiler/program/output_sets.h
  int64_t window_bytes = 0;
  int64_t arena_bytes = 0, weight_bytes = 0;
  int64_t live_set_bytes = 0;    // the lower bound that the arena is reported against
  int64_t results_in_place = 0;  // results that took the memory of an operand

  // What a caller gives and gets: states are the context's.
  std::vector<CompiledPort> given_inputs() const {
    return {inputs.begin(), inputs.end() - static_cast<long>(states.size())};
  }
  std::vector<CompiledPort> given_outputs() const {
    return {outputs.begin(), outputs.end() - static_cast<long>(states.size()) - own_outputs};
  }
  std::vector<CompiledPort> state_ports() const { return {inputs.end() - static_cast<long>(states.size()), inputs.end()}; }
};

// Is the arena planned ahead? Where an input's dims or the data decide the size of a value, a run plans.
inline bool is_planned_ahead(const CompiledProgram& program) {
  for (const rt::Buffer& b : program.buffers)
    if (b.kind == rt::BufferKind::arena && b.bytes.length != 0) return false;
  return true;
}

// Does a run decide the scratch memory of no step?
inline bool has_known_scratch(const CompiledProgram& program) {
  for (const rt::Step& s : program.steps)
    if (s.kind == rt::StepKind::launch && s.scratch_bytes.length != 0) return false;
  return true;
}

// What one worker needs at most beside the arena, in the steps where that is known.
inline int64_t most_scratch_bytes(const CompiledProgram& program) {
  int64_t most = 0;
  for (const rt::Step& s : program.steps)
    if (s.kind == rt::StepKind::launch && s.scratch_bytes.length == 0 && s.scratch_bytes.value > most)
      most = s.scratch_bytes.value;
  return most;
}

struct RawParameter {
  std::string name;  // the initialiser's, untrusted; empty: a constant that is none, which nobody refits
  Tensor tensor;
};

// Where one block of the weights block comes from.
struct WeightSource {
  int parameter = -1;             // copied from raw parameter `parameter`, or
  int prepare_output = -1;        // computed by the prepare program
  int64_t offset = 0, bytes = 0;  // in the weights block, 64-byte aligned
};

struct CompiledModel {
  CompiledProgram prepare, run;
  std::vector<RawParameter> parameters;  // prepare.inputs[k] is parameters[k]
  std::vector<WeightSource> weights;
  // Initialisers of floats that are more than weights: with other elements (a Resize's scales, a Pow's exponent) the model
  // would have been compiled to something else. In the order of their names.
  std::set<std::string> relied_on;
  std::vector<std::string> report;  // what the passes want people to know
  // Bytes on edges between kernels and host steps of a run (compiler/region/fusion/fusion_cost.h): of the fusion chosen, and
  // were every operator a kernel.
  int64_t fusion_cost_bytes = 0, unfused_cost_bytes = 0;
  std::string assumed;  // what open dims were taken for in them: "batch = 1, height = 224"; empty: there are none
  // Under a budget of memory: values that are made a second time, and what that costs by the model of
  // compiler/region/recompute.cpp.
  int64_t memory_budget = 0;  // 0: none
  int64_t recomputed_values = 0;
  double recomputed_seconds = 0;
  bool fits_budget = true;  // false: no choice of values came below the budget, this is the least that there is
  std::shared_ptr<ExprTable> expressions;  // those of `work` and `uneven`; null: they are in the process's table

  // For who keeps the programs and asks no more what they do.
  void drop_expressions() {
    prepare.work.clear();
    run.work.clear();
    prepare.uneven.clear();
    run.uneven.clear();
    expressions.reset();
  }
};

// What a run takes: arena, weights, inputs and outputs, as far as their sizes are known when compiling. Outputs that may
// overwrite inputs take nothing.
inline int64_t run_bytes(const CompiledProgram& program) {
  int64_t bytes = program.arena_bytes + (program.loads.empty() ? program.weight_bytes : program.window_bytes);
  for (const rt::Buffer& b : program.buffers)
    if ((b.kind == rt::BufferKind::input ||
         (b.kind == rt::BufferKind::output && program.outputs[static_cast<size_t>(b.index)].overwrites < 0)) &&
        b.bytes.length == 0)
      bytes += b.bytes.value;
  return bytes;
}

// Of weights, copied to the device in every run.
inline int64_t copied_bytes(const CompiledProgram& program) {
  int64_t bytes = 0;
  for (const rt::Load& l : program.loads)
    if (l.step >= 0) bytes += program.buffers[static_cast<size_t>(l.buffer)].bytes.value;
  return bytes;
}

}  // namespace metac
