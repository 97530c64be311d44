// Element-wise ops and moves that lead to outputs of the graph alone run as soon as they can: the update of a parameter
// right behind its gradient, so that a kernel that has both runs there and not behind all gradients, with everything alive
// that they read. Scalars that depend on inputs alone (learning rates) run before everything.
//
// Where a state's next value is to take its memory (`next_values`: output, input), the update waits until nothing else reads
// the state.
//
// The order of ops is the order of kernels (fuse.h); ops of regions stay where they are. No value changes.
#pragma once
#include "compiler/ir/graph.h"

namespace metac {

// Returns how many ops moved.
int order_updates(Graph& graph, const std::vector<std::pair<size_t, size_t>>& next_values = {});

// A convolution's gradient by its weights is added up in the memory of its result. With the update fused behind it that
// could not be the last value's memory too, so it is a value of its own. Returns how many there are.
int keep_sums_apart(Graph& graph, const std::vector<std::pair<size_t, size_t>>& next_values);

}  // namespace metac
