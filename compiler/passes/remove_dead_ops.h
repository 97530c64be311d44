// Removes meta-operators whose results nobody reads. Host steps stay: they may bind symbols or stop a run with a message.
#pragma once
#include "compiler/ir/graph.h"

namespace metac {

// How many were removed, those in regions included.
int remove_dead_ops(Graph& graph);

}  // namespace metac
