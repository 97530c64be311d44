// RNN, GRU and LSTM: one step each; everything around it is lower_recurrent(). Notation as in ONNX: f, g, h are the
// activations, capital letters with an index the rows of W and R of one gate.
#include "compiler/ops/layers/recurrent.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;
using Loads = const std::vector<Expr>&;

// H' = f(x*W + H*R)
void lower_rnn(Lowering& n) {
  RecurrentCell cell;
  cell.default_activations = {"tanh"};
  auto clip = clip_of(n);
  cell.step = [clip](Graph& g, const RecurrentWeights& w, const std::vector<Activation>& f, Var* x,
                     const std::vector<Var*>& states) {
    Var* recurrent = matmul(g, states[0], w.recurrent);
    return std::vector<Var*>{elementwise(g, {x, recurrent}, [&](Loads v) { return f[0](clip(v[0] + v[1])); })};
  };
  lower_recurrent(n, cell);
}

// z = f(Xz + H*Rz), r = f(Xr + H*Rr), h = g(Xh + (r.H)*Rh + Rbh), or g(Xh + r.(H*Rh + Rbh)) with linear_before_reset;
// H' = (1 - z).h + z.H. Gates in the order z, r, h.
void lower_gru(Lowering& n) {
  RecurrentCell cell;
  cell.gates = 3;
  cell.default_activations = {"sigmoid", "tanh"};
  cell.separate_recurrent_bias = true;
  bool linear_before_reset = n.integer("linear_before_reset", 0) != 0;
  auto clip = clip_of(n);
  cell.step = [=](Graph& g, const RecurrentWeights& w, const std::vector<Activation>& f, Var* x,
                  const std::vector<Var*>& states) {
    Var* state = states[0];
    auto bias = [&](Var* v, int k) {
      return w.recurrent_bias ? map(g, Fn::add, v, gate(g, w.recurrent_bias, k, w.hidden)) : v;
    };
    auto times_recurrent = [&](Var* v, int k) {  // v * R of gate k
      return matmul(g, v, gate(g, w.recurrent, k, w.hidden));
    };
    auto activated = [&](int k, Var* recurrent, const Activation& a) {
      return elementwise(g, {gate(g, x, k, w.hidden), recurrent}, [&](Loads v) { return a(clip(v[0] + v[1])); });
    };
    Var* update = activated(0, bias(times_recurrent(state, 0), 0), f[0]);
    Var* reset = activated(1, bias(times_recurrent(state, 1), 1), f[0]);
    Var* recurrent = linear_before_reset ? map(g, Fn::mul, reset, bias(times_recurrent(state, 2), 2))
                                         : bias(times_recurrent(map(g, Fn::mul, reset, state), 2), 2);
    Var* hidden = activated(2, recurrent, f[1]);
    return std::vector<Var*>{elementwise(g, {update, hidden, state},
                                         [](Loads v) { return (constant_like(v[0], 1) - v[0]) * v[1] + v[0] * v[2]; })};
  };
  lower_recurrent(n, cell);
}

}  // namespace

// i = f(Xi + H*Ri + Pi.C), forget = f(Xf + H*Rf + Pf.C), or 1 - i with input_forget; c = g(Xc + H*Rc);
// C' = forget.C + i.c, o = f(Xo + H*Ro + Po.C'), H' = o.h(C'). Gates in the order i, o, f, c; peepholes i, o, f.
RecurrentCell lstm_cell(Lowering& n) {
  RecurrentCell cell;
  cell.gates = 4;
  cell.states = 2;
  cell.default_activations = {"sigmoid", "tanh", "tanh"};
  bool input_forget = n.integer("input_forget", 0) != 0;
  auto clip = clip_of(n);
  cell.step = [=](Graph& g, const RecurrentWeights& w, const std::vector<Activation>& f, Var* x,
                  const std::vector<Var*>& states) {
    Var* all = map(g, Fn::add, x, w.product ? w.product(states[0]) : matmul(g, states[0], w.recurrent));
    auto with_peephole = [&](int k, Var* c) {
      Var* own = gate(g, all, k, w.hidden);
      if (!w.peepholes) return own;
      return elementwise(g, {own, gate(g, w.peepholes, k, w.hidden), c}, [](Loads v) { return v[0] + v[1] * v[2]; });
    };
    Var *in = with_peephole(0, states[1]), *forget = with_peephole(2, states[1]), *candidate = gate(g, all, 3, w.hidden);
    Var* c = elementwise(g, {in, forget, candidate, states[1]}, [&](Loads v) {
      Expr i = f[0](clip(v[0]));
      Expr keep = input_forget ? constant_like(i, 1) - i : f[0](clip(v[1]));
      return keep * v[3] + i * f[1](clip(v[2]));
    });
    Var* h = elementwise(g, {with_peephole(1, c), c}, [&](Loads v) { return f[0](clip(v[0])) * f[2](v[1]); });
    return std::vector<Var*>{h, c};
  };
  return cell;
}

namespace {

void lower_lstm(Lowering& n) { lower_recurrent(n, lstm_cell(n)); }

METAC_OPERATOR("RNN")
    .since({1, 7, 14, 22})
    .inputs(3, 6)
    .outputs(0, 2)
    .attribute("clip", Kind::real)
    .attribute("activation_alpha", Kind::reals)
    .attribute("activation_beta", Kind::reals)
    .attribute("activations", Kind::strings)
    .attribute("hidden_size", Kind::integer)
    .attribute("direction", Kind::string)
    .attribute("output_sequence", Kind::integer, 1, 7)
    .attribute("layout", Kind::integer, 14)
    .lower(lower_rnn);
METAC_OPERATOR("GRU")
    .since({1, 3, 7, 14, 22})
    .inputs(3, 6)
    .outputs(0, 2)
    .attribute("clip", Kind::real)
    .attribute("activation_alpha", Kind::reals)
    .attribute("activation_beta", Kind::reals)
    .attribute("activations", Kind::strings)
    .attribute("hidden_size", Kind::integer)
    .attribute("direction", Kind::string)
    .attribute("linear_before_reset", Kind::integer, 3)
    .attribute("output_sequence", Kind::integer, 1, 7)
    .attribute("layout", Kind::integer, 14)
    .lower(lower_gru);
METAC_OPERATOR("LSTM")
    .since({1, 7, 14, 22})
    .inputs(3, 8)
    .outputs(0, 3)
    .attribute("clip", Kind::real)
    .attribute("activation_alpha", Kind::reals)
    .attribute("activation_beta", Kind::reals)
    .attribute("activations", Kind::strings)
    .attribute("hidden_size", Kind::integer)
    .attribute("direction", Kind::string)
    .attribute("input_forget", Kind::integer)
    .attribute("output_sequence", Kind::integer, 1, 7)
    .attribute("layout", Kind::integer, 14)
    .lower(lower_lstm);

}  // namespace
}  // namespace metac
