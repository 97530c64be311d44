#include "compiler/program/run_memory.h"

#include <set>

#include "compiler/support/diagnostic.h"
#include "runtime/extent.h"
#include "runtime/memory.h"
#include "runtime/planner.h"

namespace metac {

std::string arena_depends_on(const CompiledProgram& program) {
  std::set<int64_t> dims;
  bool data = false;
  for (const rt::Buffer& b : program.buffers) {
    if (b.kind != rt::BufferKind::arena) continue;
    data |= b.late;
    for (int32_t k = 0; k < b.bytes.length; ++k)
      if (const rt::Instruction& i = program.code[static_cast<size_t>(b.bytes.value + k)]; i.code == rt::Code::symbol)
        dims.insert(i.value);
  }
  std::set<int64_t> of_inputs;
  for (const rt::SymbolSource& source : program.sources) of_inputs.insert(source.symbol);
  std::string text;
  for (int64_t id : dims)
    if (of_inputs.count(id)) text += (text.empty() ? "" : ", ") + shown(program.symbols[static_cast<size_t>(id)].name);
  return data ? text + (text.empty() ? "the data" : ", the data") : text;
}

int64_t typical_arena_bytes(const CompiledProgram& program) {
  rt::Program code{};
  code.code = program.code.data();
  code.code_count = static_cast<int32_t>(program.code.size());
  std::vector<int64_t> typical;
  for (const CompiledProgram::SymbolRow& row : program.symbols) typical.push_back(row.typical);
  std::vector<rt::Placement> items;
  for (const rt::Buffer& b : program.buffers) {
    int64_t bytes = 0;
    if (b.kind != rt::BufferKind::arena || b.late || b.offset >= 0) continue;
    if (!rt::evaluate(code, b.bytes, typical.data(), &bytes) || bytes <= 0) continue;
    items.push_back({bytes + rt::alignment, b.first_step, b.last_step, 0});
  }
  std::vector<int32_t> order(items.size()), live(items.size());
  return program.arena_bytes + rt::plan_memory(items.data(), static_cast<int32_t>(items.size()), order.data(), live.data());
}

}  // namespace metac
