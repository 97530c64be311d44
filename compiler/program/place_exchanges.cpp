#include "compiler/program/place_exchanges.h"

#include <algorithm>

#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

int owner(const CompiledProgram& program, int buffer) {
  while (buffer >= 0 && program.buffers[static_cast<size_t>(buffer)].kind == rt::BufferKind::view)
    buffer = program.buffers[static_cast<size_t>(buffer)].index;
  return buffer;
}

// Whether step `k`, or a step that it runs, touches the memory of `owned`.
bool touches(const CompiledProgram& program, int k, int owned) {
  const rt::Step& s = program.steps[static_cast<size_t>(k)];
  for (int o = 0; o < s.count; ++o)
    if (owner(program, program.operands[static_cast<size_t>(s.first + o)]) == owned) return true;
  if (s.kind != rt::StepKind::branch && s.kind != rt::StepKind::loop) return false;
  for (int inner = s.then_begin; inner < s.then_end; ++inner)
    if (touches(program, inner, owned)) return true;
  for (int inner = s.else_begin; s.kind == rt::StepKind::branch && inner < s.else_end; ++inner)
    if (touches(program, inner, owned)) return true;
  return false;
}

}  // namespace

void place_exchanges(CompiledProgram& program, const std::map<int, MadeExchange>& made) {
  for (const auto& [index, value] : made) {
    METAC_ASSERT(value.step >= 0 && value.step < program.top_level_steps, "exchange ", index, " inside of a region");
    rt::Exchange e{index, value.buffer, value.step, program.top_level_steps};
    const int owned = owner(program, value.buffer);
    for (int k = value.step + 1; k < program.top_level_steps && e.needed == program.top_level_steps; ++k)
      if (touches(program, k, owned)) e.needed = k;
    // Steps that are repeated: there when all rounds are done, needed before the first.
    for (int k = 0; k < program.top_level_steps; ++k) {
      const rt::Step& s = program.steps[static_cast<size_t>(k)];
      if (s.kind != rt::StepKind::repeat) continue;
      const bool inside = s.then_begin <= e.ready && e.ready <= k, read_inside = s.then_begin <= e.needed && e.needed <= k;
      METAC_ASSERT(!inside || !read_inside, "exchange ", index, " is read where it is made, round by round");
      if (inside) e.ready = k;
      if (read_inside) e.needed = s.then_begin;
    }
    program.exchanges.push_back(e);
  }
  std::stable_sort(program.exchanges.begin(), program.exchanges.end(),
                   [](const rt::Exchange& a, const rt::Exchange& b) { return a.ready < b.ready; });
}

}  // namespace metac
