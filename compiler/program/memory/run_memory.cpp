#include "compiler/program/memory/run_memory.h"

#include <set>

#include "compiler/support/diagnostic.h"
#include "runtime/executor/planner.h"
#include "runtime/extent.h"
#include "runtime/memory.h"

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

TypicalArena typical_arena(const CompiledProgram& program) {
  rt::Program code{};
  code.code = program.code.data();
  code.code_count = static_cast<int32_t>(program.code.size());
  std::vector<int64_t> typical;
  for (const CompiledProgram::SymbolRow& row : program.symbols) typical.push_back(row.typical);
  TypicalArena arena;
  std::vector<rt::Placement> items;
  std::vector<size_t> placed;  // which values the items are
  for (size_t k = 0; k < program.buffers.size(); ++k) {
    const rt::Buffer& b = program.buffers[k];
    int64_t bytes = 0;
    if (b.kind != rt::BufferKind::arena || b.late) continue;
    if (!rt::evaluate(code, b.bytes, typical.data(), &bytes) || bytes <= 0) continue;
    if (b.offset < 0) {
      items.push_back({bytes + rt::alignment, b.first_step, b.last_step, 0});
      placed.push_back(arena.values.size());
    }
    arena.values.push_back({static_cast<int>(k), bytes, b.offset});
  }
  std::vector<int32_t> order(items.size()), live(items.size());
  arena.bytes =
      program.arena_bytes + rt::plan_memory(items.data(), static_cast<int32_t>(items.size()), order.data(), live.data());
  for (size_t k = 0; k < items.size(); ++k) arena.values[placed[k]].offset = program.arena_bytes + items[k].offset;
  return arena;
}

namespace {

void count_times(const CompiledProgram& program, int begin, int end, std::vector<int>& times) {
  for (int k = begin; k < end; ++k) {
    const rt::Step& s = program.steps[static_cast<size_t>(k)];
    times.push_back(k);
    if (s.kind != rt::StepKind::branch && s.kind != rt::StepKind::loop) continue;
    count_times(program, s.then_begin, s.then_end, times);
    if (s.kind == rt::StepKind::branch) count_times(program, s.else_begin, s.else_end, times);
    times.push_back(k);
  }
}

}  // namespace

std::vector<int> steps_by_time(const CompiledProgram& program) {
  std::vector<int> times;
  count_times(program, 0, program.top_level_steps, times);
  return times;
}

}  // namespace metac
