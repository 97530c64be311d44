// What RNN, GRU and LSTM share: directions, layouts, sequence lengths and the loop over time. x*W does not depend on the
// state, so it is one contraction over all steps, outside the loop; one step alone is not a loop at all.
#pragma once
#include "compiler/ops/activations.h"
#include "compiler/ops/arithmetic.h"

namespace metac {

// One direction's weights, each of an arithmetic dtype: recurrent [H, gates*H], recurrent_bias [gates*H] or null.
struct RecurrentWeights {
  Var* recurrent = nullptr;
  Var* recurrent_bias = nullptr;
  Var* peepholes = nullptr;  // [3*H], LSTM
  Dim hidden;
};

// One step: the operand's part x*W + bias of all gates [B, gates*H] and the states [B, H] -> the new states.
using RecurrentStep = std::function<std::vector<Var*>(Graph&, const RecurrentWeights&, const std::vector<Activation>&, Var*,
                                                      const std::vector<Var*>&)>;

struct RecurrentCell {
  int gates = 1, states = 1;                       // the first state is the output
  std::vector<std::string> default_activations;    // of one direction, lower case
  bool separate_recurrent_bias = false;            // else it is added to x*W
  RecurrentStep step;
};

void lower_recurrent(Lowering& n, const RecurrentCell& cell);

// Gate k of [B, gates*H] as [B, H].
Var* gate(Graph& g, Var* all, int k, Dim hidden);
// The attribute `clip` as a function on the arguments of activations.
std::function<Expr(Expr)> clip_of(const Lowering& n);

}  // namespace metac
