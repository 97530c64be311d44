// States: values that one run of a model hands to the next. A decoder's cache of keys and values is one, the hidden state of
// a recurrent network, what a streaming convolution keeps of the samples before. In a model's file such a value is an input
// and an output; --state says that they are one, and it is the context's (docs/states.md).
#pragma once
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace metac {

struct Model;

// The value of `output` in one run is that of `input` in the next.
struct StateNames {
  std::string input, output;
  bool operator==(const StateNames&) const = default;
};

// The pairs that names tell, in the order of the inputs, of equal dtype and rank: past_key_values.0.key and present.0.key,
// past_key_0 and present_key_0, past_value_self_3 and present_value_self_3 (Optimum's and ONNX Runtime's exporters);
// state and stateN, h and hn, h0 and hn, cache_in_0 and cache_out_0, x and next_x.
std::vector<StateNames> known_states(const Model& model);

// Finds the pairs among the graph's inputs and outputs, puts them last, says how each is kept (Graph::states). Throws
// CompileError where there is no such input or output, or where an output cannot be the next run's input.
void take_states(Graph& graph, const std::vector<StateNames>& states);

// Adds Graph::last_step_of behind take_states(): [.., steps, values] of the output of this name becomes [.., 1, values]. Not
// where the steps are no more than one or not those of the input: [.., steps], not a state.
void add_last_step(Graph& graph, const std::string& output);

}  // namespace metac
