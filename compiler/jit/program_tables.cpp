#include "compiler/jit/program_tables.h"

#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

std::vector<const char*> c_strings(const std::vector<std::string>& strings) {
  std::vector<const char*> result;
  for (const std::string& s : strings) result.push_back(s.c_str());
  return result;
}

int32_t count(const auto& table) { return static_cast<int32_t>(table.size()); }

// Behind the other names; returns where it begins.
int32_t add_name(const std::string& name, std::string& names) {
  const int32_t begin = count(names);
  names += name;
  names += '\0';
  return begin;
}

std::vector<rt::Port> ports(const std::vector<CompiledPort>& compiled, std::string& names) {
  std::vector<rt::Port> result;
  for (const CompiledPort& port : compiled) result.push_back({add_name(port.name, names), port.buffer});
  return result;
}

}  // namespace

ProgramTables::ProgramTables(const CompiledProgram& p, const std::vector<rt::KernelFunction>& kernels,
                             const std::vector<rt::Buffer>& buffers)
    : kernels_(kernels),
      inputs_(ports(p.inputs, names_)),
      outputs_(ports(p.outputs, names_)),
      routines_(c_strings(p.routines)),
      messages_(c_strings(p.messages)) {
  for (const CompiledProgram::SymbolRow& row : p.symbols)
    symbols_.push_back({row.name.c_str(), row.min, row.max, row.divisor});
  for (const KernelSource& kernel : p.kernels) kernel_names_.push_back(add_name(kernel.name, names_));
  for (const auto& list : p.attributes) {
    std::vector<rt::RoutineAttribute> rows;
    for (const RoutineCallAttribute& a : list)
      rows.push_back({a.name.c_str(), a.integer, a.real, a.string.c_str(), a.integers.data(), count(a.integers)});
    attribute_rows_.push_back(std::move(rows));
  }
  for (const auto& rows : attribute_rows_) attributes_.push_back({rows.data(), count(rows)});

  rt::Program& t = program_;
  METAC_ASSERT(buffers.size() == p.buffers.size(), "buffers of the program");
  t.buffers = buffers.data(), t.buffer_count = count(buffers);
  t.extents = p.extents.data(), t.extent_count = count(p.extents);
  t.code = p.code.data(), t.code_count = count(p.code);
  t.operands = p.operands.data(), t.operand_count = count(p.operands);
  t.steps = p.steps.data(), t.step_count = count(p.steps);
  t.top_level_steps = p.top_level_steps;
  t.symbols = symbols_.data(), t.symbol_count = count(symbols_);
  t.sources = p.sources.data(), t.source_count = count(p.sources);
  t.symbol_ids = p.symbol_ids.data(), t.symbol_id_count = count(p.symbol_ids);
  t.inputs = inputs_.data(), t.input_count = count(inputs_);
  t.outputs = outputs_.data(), t.output_count = count(outputs_);
  t.kernels = kernels_.data(), t.kernel_count = count(kernels_);
  t.names = names_.c_str(), t.kernel_names = kernel_names_.data();
  t.routines = routines_.data(), t.routine_count = count(routines_);
  t.attributes = attributes_.data(), t.attributes_count = count(attributes_);
  t.messages = messages_.data(), t.message_count = count(messages_);
  t.arena_bytes = p.arena_bytes;
  t.weight_bytes = p.weight_bytes;
  t.exchanges = p.exchanges.data(), t.exchange_count = count(p.exchanges);
  t.states = p.states.data(), t.state_count = count(p.states), t.own_outputs = p.own_outputs;
  t.loads = p.loads.data(), t.load_count = count(p.loads);
  t.window_bytes = p.window_bytes;
  t.needs = p.needs.empty() ? nullptr : p.needs.data();
  t.work = p.work_extents.empty() ? nullptr : p.work_extents.data();
}

}  // namespace metac
