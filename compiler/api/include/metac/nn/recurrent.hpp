// LSTM and GRU over ONNX's operators; weights by ONNX's names and gates: W of [directions, gates * hidden, inputs], R of
// [directions, gates * hidden, hidden], B of [directions, 2 * gates * hidden].
#pragma once
#include "initial.hpp"
#include "module.hpp"

namespace metac::nn {

struct RecurrentOptions {
  bool bidirectional = false;
};

namespace detail {

template <int64_t gates, class OpOptions>
class Recurrent : public Module {
 public:
  Var W, R, B;

 protected:
  Recurrent(int64_t inputs, int64_t hidden, const RecurrentOptions& given) {
    const int64_t directions = given.bidirectional ? 2 : 1;
    const double bound = 1 / std::sqrt(static_cast<double>(positive(hidden, "the hidden size")));
    W = parameter("W", uniform({directions, gates * hidden, inputs}, bound));
    R = parameter("R", uniform({directions, gates * hidden, hidden}, bound));
    B = parameter("B", filled({directions, 2 * gates * hidden}, 0));
    options_.hidden_size = hidden;
    options_.direction = given.bidirectional ? "bidirectional" : "forward";
  }
  // [steps, directions, n, hidden] as [steps, n, directions * hidden].
  static Var merged(const Var& y, Place where) {
    const std::vector<int64_t> dims = y.shape();
    return reshape(transpose(y, {0, 2, 1, 3}, where), {dims[0], dims[2], -1}, where);
  }
  OpOptions options_;
};

}  // namespace detail

// Over [steps, n, inputs], from a state or from zeros; gates are i, o, f, c.
class LSTM : public detail::Recurrent<4, op::LSTMOptions> {
 public:
  struct State {
    Var h, c;  // each [directions, n, hidden]; Var(): zeros
  };
  struct Output {
    Var y;  // [steps, n, directions * hidden]
    State state;
  };

  LSTM(int64_t inputs, int64_t hidden, const RecurrentOptions& options = {}) : Recurrent(inputs, hidden, options) {
    options_.outputs = 3;
  }
  Output operator()(const Var& x, const State& state = {}, Place where = Place::current()) const {
    const std::vector<Var> made = op::LSTM(x, W, R, B, Var(), state.h, state.c, options_, where);
    return {merged(made[0], where), {made[1], made[2]}};
  }
};

// Over [steps, n, inputs], from a state or from zeros; gates are z, r, h.
class GRU : public detail::Recurrent<3, op::GRUOptions> {
 public:
  struct Output {
    Var y, h;  // [steps, n, directions * hidden], [directions, n, hidden]
  };

  GRU(int64_t inputs, int64_t hidden, const RecurrentOptions& options = {}) : Recurrent(inputs, hidden, options) {
    options_.linear_before_reset = 1;
    options_.outputs = 2;
  }
  Output operator()(const Var& x, const Var& state = {}, Place where = Place::current()) const {
    const std::vector<Var> made = op::GRU(x, W, R, B, Var(), state, options_, where);
    return {merged(made[0], where), made[1]};
  }
};

}  // namespace metac::nn
