// What the inputs and outputs of a decoder are for, by their names, dtypes and shapes as exporters write them: which are the
// tokens, which tell positions, lengths and masks, which output holds the logits. What is not clear is an error: nothing is
// guessed that a run would not show.
#pragma once
#include <string>
#include <vector>

#include "compiler/ops/states.h"
#include "runtime/generate/decoder_inputs.h"

namespace metac {

struct DecoderPort {
  std::string name;
  metac_runtime::InputRole role;
};

struct DecoderPorts {
  std::vector<DecoderPort> inputs;  // in the model's order, without states and parameters
  std::string logits;               // the output
  std::vector<std::string> adapters;  // names of the sets that the input for them chooses from, from 1 on
};

// Throws CompileError where an input or the logits are not known, or tokens come in a fixed number above 1.
DecoderPorts decoder_ports(const Model& model, const std::vector<StateNames>& states);

}  // namespace metac
