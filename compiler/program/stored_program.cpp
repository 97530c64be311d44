#include "compiler/program/stored_program.h"

#include "compiler/ir/tensor_fields.h"

// Found by the archive where the types are at home.
namespace metac_runtime {

template <class Archive>
void fields(Archive& archive, Extent& extent) {
  auto& [value, length] = extent;
  int64_t its_value = value;
  archive(its_value, length);
  value = its_value;
}

template <class Archive>
void fields(Archive& archive, Instruction& instruction) {
  auto& [code, value] = instruction;
  archive(code, value);
}

template <class Archive>
void fields(Archive& archive, Buffer& buffer) {
  auto& [kind, dtype, late, rank, index, offset, first_dim, bytes, first_step, last_step] = buffer;
  BufferKind its_kind = kind;  // bit-fields, which have no references
  ScalarType its_dtype = dtype;
  bool is_late = late;
  int32_t its_rank = rank;
  archive(its_kind, its_dtype, is_late, its_rank, index, offset, first_dim, bytes, first_step, last_step);
  kind = its_kind, dtype = its_dtype, late = is_late, rank = static_cast<int16_t>(its_rank);
}

template <class Archive>
void fields(Archive& archive, Step& step) {
  auto& [kind, inputs, first, count, kernel, parallel, scratch_bytes, cost, symbol, symbol_count, element, then_begin,
         then_end, else_begin, else_end, carried, stacked] = step;
  StepKind its_kind = kind;  // bit-fields, as above
  int32_t its_inputs = inputs;
  archive(its_kind, its_inputs, first, count, kernel, parallel, scratch_bytes, cost, symbol, symbol_count, element,
          then_begin, then_end, else_begin, else_end, carried, stacked);
  kind = its_kind, inputs = its_inputs & 0x7fffff;
}

template <class Archive>
void fields(Archive& archive, SymbolSource& source) {
  auto& [symbol, input, axis] = source;
  archive(symbol, input, axis);
}

template <class Archive>
void fields(Archive& archive, StepWork& work) {
  auto& [operations, bytes] = work;
  archive(operations, bytes);
}

template <class Archive>
void fields(Archive& archive, Exchange& exchange) {
  auto& [index, buffer, ready, needed] = exchange;
  archive(index, buffer, ready, needed);
}

template <class Archive>
void fields(Archive& archive, StateInfo& state) {
  auto& [input, output, axis, capacity, kept] = state;
  archive(input, output, axis, capacity, kept);
}

template <class Archive>
void fields(Archive& archive, Load& load) {
  auto& [step, buffer, offset] = load;
  archive(step, buffer, offset);
}

}  // namespace metac_runtime

namespace metac {

template <class Archive>
void fields(Archive& archive, RoutineCallAttribute& attribute) {
  auto& [name, integer, real, string, integers] = attribute;
  archive(name, integer, real, string, integers);
}

template <class Archive>
void fields(Archive& archive, CompiledPort& port) {
  auto& [name, buffer, dtype, dims, overwrites] = port;
  archive(name, buffer, dtype, dims, overwrites);
}

template <class Archive>
void fields(Archive& archive, CompiledProgram::SymbolRow& symbol) {
  auto& [name, min, max, divisor, typical] = symbol;
  archive(name, min, max, divisor, typical);
}

template <class Archive>
void fields(Archive& archive, KernelSource& kernel) {
  auto& [name, text, nodes, schedule, subject, decisions, libraries, symbols, reads, writes, multiplies] = kernel;
  archive(name, text, nodes, libraries, symbols);
}

template <class Archive>
void fields(Archive& archive, CompiledProgram& program) {
  auto& [buffers, extents, code, operands, steps, step_comments, top_level_steps, symbols, sources, symbol_ids, inputs,
         outputs, own_outputs, kernels, work, uneven, work_extents, routines, attributes, messages, exchanges, states, loads,
         needs, window_bytes, arena_bytes, weight_bytes, live_set_bytes, results_in_place] = program;
  archive(buffers, extents, code, operands, steps, step_comments, top_level_steps, symbols, sources, symbol_ids, inputs,
          outputs, own_outputs, kernels, work_extents, routines, attributes, messages, exchanges, states, loads, needs,
          window_bytes, arena_bytes, weight_bytes, live_set_bytes, results_in_place);
}

template <class Archive>
void fields(Archive& archive, RawParameter& parameter) {
  auto& [name, tensor] = parameter;
  archive(name, tensor);
}

template <class Archive>
void fields(Archive& archive, WeightSource& source) {
  auto& [parameter, prepare_output, offset, bytes] = source;
  archive(parameter, prepare_output, offset, bytes);
}

template <class Archive>
void fields(Archive& archive, CompiledModel& model) {
  auto& [prepare, run, parameters, weights, relied_on, report, fusion_cost_bytes, unfused_cost_bytes, assumed, memory_budget,
         recomputed_values, recomputed_seconds, fits_budget, expressions] = model;
  archive(prepare, run, parameters, weights, relied_on, memory_budget, fits_budget);
}

std::string stored_program(const CompiledModel& model) {
  ByteWriter writer;
  writer(model);
  return writer.bytes();
}

std::optional<CompiledModel> read_stored_program(std::string_view bytes) {
  ByteReader reader(bytes);
  CompiledModel model;
  reader(model);
  if (!reader.at_end()) return std::nullopt;
  return model;
}

}  // namespace metac
