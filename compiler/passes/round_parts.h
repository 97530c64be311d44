// What rounds a concatenation to bytes rounds its parts instead: each is rounded by the kernel that makes it, and bytes are
// put together.
//
//   q(concat(a, b))   becomes   concat(q(a), q(b))
//
// Quantisers write QuantizeLinear behind Concat. Where the parts are float32 (dequantised, as such files have it), four times
// the bytes would be stored for them, and read again to be rounded.
#pragma once
#include "compiler/ir/graph.h"

namespace metac {

// How many concatenations became ones of bytes (remove_dead_ops takes the wide ones away). Not where somebody else reads the
// concatenation, or where what is done changes along it.
int round_parts(Graph& graph);

}  // namespace metac
