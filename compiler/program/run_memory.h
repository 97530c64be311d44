// The working memory of a program whose values are placed when a run knows their sizes.
#pragma once
#include "compiler/program/program.h"

namespace metac {

// What the size of the arena depends on: "batch, h, w", "n, the data"; empty: nothing, it is planned ahead. Names are
// escaped.
std::string arena_depends_on(const CompiledProgram& program);

// Bytes of the arena as a run plans it that has the typical dims (CompiledProgram::SymbolRow); what only the data size is
// not in it.
int64_t typical_arena_bytes(const CompiledProgram& program);

}  // namespace metac
