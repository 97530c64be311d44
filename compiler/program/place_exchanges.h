// When values that processes exchange (Var::exchanged) are there, and when they are needed: a program's table of exchanges.
#pragma once
#include <map>

#include "compiler/program/program.h"

namespace metac {

struct MadeExchange {
  int buffer = -1;
  int step = -1;  // the last one that writes it; of the top level
};

// Fills program.exchanges, by the order in which they are there. All steps are in the program.
void place_exchanges(CompiledProgram& program, const std::map<int, MadeExchange>& made);

}  // namespace metac
