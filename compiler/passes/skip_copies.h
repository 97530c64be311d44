// Ops that only hand their operand on: what is left of x * 1 or x - 0 (compiler/ir/canonical.cpp folds those to a load; only
// identities that change no bit, so neither x + 0.0 nor x * 0), a transpose of a transpose or a reshape there and back.
// Whoever reads such a result reads the operand.
#pragma once
#include "compiler/ir/graph.h"

namespace metac {

// How many results are not read any more (remove_dead_ops takes their ops away).
int skip_copies(Graph& graph);

}  // namespace metac
