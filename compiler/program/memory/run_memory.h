// The working memory of a program whose values are placed when a run knows their sizes.
#pragma once
#include "compiler/program/program.h"

namespace metac {

// What the size of the arena depends on: "batch, h, w", "n, the data"; empty: nothing, it is planned ahead. Names are
// escaped.
std::string arena_depends_on(const CompiledProgram& program);

// The arena as a run plans it that has the typical dims (CompiledProgram::SymbolRow). What only the data size is not in it.
struct PlacedValue {
  int buffer;
  int64_t bytes, offset;
};
struct TypicalArena {
  std::vector<PlacedValue> values;
  int64_t bytes = 0;
};
TypicalArena typical_arena(const CompiledProgram& program);
inline int64_t typical_arena_bytes(const CompiledProgram& program) { return typical_arena(program).bytes; }

// Which step is done at each of the times that lifetimes count in (Buffer::first_step): a branch or a loop begins at one,
// and ends at another behind its own steps.
std::vector<int> steps_by_time(const CompiledProgram& program);

}  // namespace metac
