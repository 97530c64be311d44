// Which outputs each step is for, so that runs leave out what only outputs need that a caller does not want.
#pragma once
#include <cstdint>
#include <vector>

#include "compiler/program/program.h"

namespace metac {

// Of each step: rt::Program::needs. Empty where every step is for everything that the program gives.
std::vector<uint8_t> output_sets(const CompiledProgram& program);

}  // namespace metac
