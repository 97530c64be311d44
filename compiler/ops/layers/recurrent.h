// What RNN, GRU and LSTM share: directions, layouts, sequence lengths and the loop over time. x*W does not depend on the
// state, so it is one contraction over all steps, outside the loop; one step alone is not a loop at all.
#pragma once
#include "compiler/ops/pointwise/activations.h"
#include "compiler/ops/pointwise/arithmetic.h"

namespace metac {

// One direction's weights, each of an arithmetic dtype: recurrent [H, gates*H], recurrent_bias [gates*H] or null.
struct RecurrentWeights {
  Var* recurrent = nullptr;
  std::function<Var*(Var*)> product;  // [B, H] -> [B, gates*H] where the cell is given one, and then `recurrent` is null
  Var* recurrent_bias = nullptr;
  Var* peepholes = nullptr;  // [3*H], LSTM
  Dim hidden;
};

// One step: the operand's part x*W + bias of all gates [B, gates*H] and the states [B, H] -> the new states.
using RecurrentStep = std::function<std::vector<Var*>(Graph&, const RecurrentWeights&, const std::vector<Activation>&, Var*,
                                                      const std::vector<Var*>&)>;

struct RecurrentCell {
  int gates = 1, states = 1;                     // the first state is the output
  std::vector<std::string> default_activations;  // of one direction, lower case
  bool separate_recurrent_bias = false;          // else it is added to x*W
  RecurrentStep step;
};

// What a recurrent operator is given; null: absent.
struct RecurrentOperands {
  Var *x, *w, *r, *b, *lengths;
  std::vector<Var*> initial;  // one per state
  Var* peepholes;
  // The product of rows with one direction's W, or its R (`of_state`), which then may have any dtype and are read by nobody
  // else.
  std::function<Var*(Var* rows, bool of_state, int direction)> product;
  // Whether a sequence that has ended gives 0 to products of the first state, not the state it ended in: results are the
  // same, but not what a product sees of all rows.
  bool zero_when_ended = false;
};
// Inputs X, W, R, B, sequence_lens, initial_h, initial_c, P.
RecurrentOperands recurrent_operands(const Lowering& n, const RecurrentCell& cell);

void lower_recurrent(Lowering& n, const RecurrentCell& cell, const RecurrentOperands& operands);
inline void lower_recurrent(Lowering& n, const RecurrentCell& cell) {
  lower_recurrent(n, cell, recurrent_operands(n, cell));
}

// The cell that an LSTM's attributes ask for.
RecurrentCell lstm_cell(Lowering& n);

// Gate k of [B, gates*H] as [B, H].
Var* gate(Graph& g, Var* all, int k, Dim hidden);
// The attribute `clip` as a function on the arguments of activations.
std::function<Expr(Expr)> clip_of(const Lowering& n);

}  // namespace metac
