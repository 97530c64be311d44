#include "compiler/ops/layers/recurrent.h"

#include <algorithm>

#include "compiler/ops/control/carried_loop.h"

namespace metac {

Var* gate(Graph& g, Var* all, int k, Dim hidden) {
  const int last = all->rank() - 1;
  Shape shape = all->shape();
  shape[static_cast<size_t>(last)] = hidden;
  std::vector<Expr> indices = identity_indices(last);
  indices.push_back(axis(last) + Expr(k) * hidden);
  return g.reindex({all}, shape, indices);
}

std::function<Expr(Expr)> clip_of(const Lowering& n) {
  if (!n.has("clip")) return [](Expr e) { return e; };
  double bound = n.real("clip", 0);
  return [bound](Expr e) { return min(max(e, constant_like(e, -bound)), constant_like(e, bound)); };
}

namespace {

// Activations of all directions in order; alpha and beta go to those that take them, in order.
std::vector<std::vector<Activation>> activations_of(const Lowering& n, const RecurrentCell& cell, int directions) {
  size_t each = cell.default_activations.size();
  std::vector<std::string> names = n.strings("activations");
  if (names.empty())
    for (int d = 0; d < directions; ++d)
      names.insert(names.end(), cell.default_activations.begin(), cell.default_activations.end());
  // RNN's schema lists two by default, for either number of directions.
  if (names.size() < each * directions) fail("activations has ", names.size(), " names, expected ", each * directions);
  std::vector<double> alphas = n.reals("activation_alpha"), betas = n.reals("activation_beta");
  size_t next_alpha = 0, next_beta = 0;
  std::vector<std::vector<Activation>> result(directions);
  for (size_t i = 0; i < each * directions; ++i) {
    std::transform(names[i].begin(), names[i].end(), names[i].begin(), [](unsigned char c) { return std::tolower(c); });
    ActivationParameters p = activation_parameters(names[i]);
    Activation activation{names[i], p.alpha, p.beta};
    if (p.count > 0 && next_alpha < alphas.size()) activation.alpha = alphas[next_alpha++];
    if (p.count > 1 && next_beta < betas.size()) activation.beta = betas[next_beta++];
    result[i / each].push_back(activation);
  }
  return result;
}

struct TimeSteps {
  Dim steps, batch;
  Var* lengths = nullptr;  // int32 [B], or null: all run to the end
  bool reverse = false;
  bool zero_when_ended = false;  // as in RecurrentOperands

  // The time that step `step` of batch element `b` reads and writes; lengths are operand `operand` of the op.
  Expr time(Expr step, Expr b, int operand) const {
    if (!reverse) return step;
    if (!lengths) return steps - Expr(1) - step;
    return max(cast(load(operand, lengths->dtype(), {b}), DType::i64) - Expr(1) - step, 0);
  }
};

// Runs the steps; returns the first state after every step [T, B, H] and the final states.
std::pair<Var*, std::vector<Var*>> run_steps(Graph& g, const TimeSteps& s, Var* inputs, const std::vector<Var*>& initial,
                                             const std::function<std::vector<Var*>(Var*, const std::vector<Var*>&)>& step) {
  Dim width = inputs->shape()[2];
  auto advance = [&](Expr t, const std::vector<Var*>& states) {
    std::vector<Var*> operands{inputs};
    if (s.lengths) operands.push_back(s.lengths);
    Var* now = g.reindex(operands, {s.batch, width}, {s.time(t, axis(0), 1), axis(0), axis(1)});
    std::vector<Var*> seen = states;
    if (s.lengths && s.zero_when_ended) {
      DType dtype = states[0]->dtype();
      Expr ended = cast(load(1, s.lengths->dtype(), {axis(0)}), DType::i64) < t;
      seen[0] = g.elementwise({states[0], s.lengths}, states[0]->shape(),
                              select(ended, constant_of(dtype, 0), load(0, dtype, identity_indices(2))));
    }
    std::vector<Var*> next = step(now, seen);
    if (!s.lengths) return next;
    for (size_t i = 0; i < next.size(); ++i) {  // a sequence that has ended keeps its state
      Expr running = t < cast(load(2, s.lengths->dtype(), {axis(0)}), DType::i64);
      DType dtype = next[i]->dtype();
      next[i] = g.elementwise({next[i], states[i], s.lengths}, next[i]->shape(),
                              select(running, load(0, dtype, identity_indices(2)), load(1, dtype, identity_indices(2))));
    }
    return next;
  };
  if (s.steps.is_int(1)) {
    std::vector<Var*> last = advance(0, initial);
    return {unsqueeze(g, last[0], {0}), last};
  }
  CarriedLoop over_time;
  over_time.trip_count = fill(g, {}, s.steps);
  over_time.trips = s.steps;
  over_time.initial = initial;
  Op* loop = over_time.build(g, [&](Expr t, const std::vector<Var*>& states) {
    std::vector<Var*> results = advance(t, states);
    results.push_back(results[0]);
    results.insert(results.begin(), nullptr);
    return results;
  });
  Var* all = loop->outputs.back();
  if (all->shape()[0] != s.steps) all = g.reindex({all}, {s.steps, s.batch, all->shape()[2]}, identity_indices(3));
  return {all, {loop->outputs.begin(), loop->outputs.end() - 1}};
}

// From the order of the steps to the order of time; 0 beyond a sequence's end.
Var* in_time_order(Graph& g, const TimeSteps& s, Var* by_step) {
  if (!s.reverse && !s.lengths) return by_step;
  std::vector<Var*> operands{by_step};
  std::vector<Expr> conditions;
  if (s.lengths) {
    operands.push_back(s.lengths);
    conditions.push_back(axis(0) < cast(load(1, s.lengths->dtype(), {axis(1)}), DType::i64));
  }
  return g.reindex(operands, by_step->shape(), {s.time(axis(0), axis(1), 1), axis(1), axis(2)}, conditions);
}

// All lengths known and equal to the number of steps?
bool all_full(const Var* lengths, Dim steps) {
  const auto& known = lengths->known_elements();
  return known && std::all_of(known->begin(), known->end(),
                              [&](Expr e) { return bool(e) && e.if_int() != nullptr && steps.is_int(e.as_int()); });
}

}  // namespace

RecurrentOperands recurrent_operands(const Lowering& n, const RecurrentCell& cell) {
  RecurrentOperands o{n.input(0), n.input(1), n.input(2), n.optional_input(3), n.optional_input(4), {}, nullptr, {}};
  for (int i = 0; i < cell.states; ++i) o.initial.push_back(n.optional_input(5 + static_cast<size_t>(i)));
  if (cell.states > 1) o.peepholes = n.optional_input(7);
  return o;
}

void lower_recurrent(Lowering& n, const RecurrentCell& cell, const RecurrentOperands& operands) {
  Graph& g = n.graph();
  Var *x = operands.x, *w = operands.w, *r = operands.r, *b = operands.b, *lengths = operands.lengths;
  DType dtype = x->dtype();
  require_float(x, "X");
  require_rank(x, 3, "X");
  require_rank(w, 3, "W");
  require_rank(r, 3, "R");
  if (!operands.product) {
    require_same_dtype(x, w, "X", "W");
    require_same_dtype(x, r, "X", "R");
  }
  std::string direction = n.string("direction", "forward");
  if (direction == "foward") direction = "forward";  // the default of GRU's first schema, spelt so
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    fail("direction must be forward, reverse or bidirectional, found ", quoted(direction));
  int directions = direction == "bidirectional" ? 2 : 1;
  int64_t layout = n.integer("layout", 0);
  if (layout != 0 && layout != 1) fail("layout must be 0 or 1, found ", layout);
  if (layout == 1) x = transpose(g, x, {1, 0, 2});
  Dim hidden = r->shape()[2], width = hidden * Expr(cell.gates), features = x->shape()[2];
  if (n.has("hidden_size"))
    require_equal(g, hidden, n.integer("hidden_size", 0), concat("R ", to_string(r->shape()), " against hidden_size"));
  auto check = [&](Var* v, const Shape& expected, const char* what) {
    if (v->shape().size() != expected.size())
      fail(what, " must have shape ", to_string(expected), ", found ", to_string(v->shape()));
    for (size_t i = 0; i < expected.size(); ++i)
      require_equal(g, v->shape()[i], expected[i],
                    concat(what, " must have shape ", to_string(expected), ", found ", to_string(v->shape())));
  };
  check(w, {directions, width, features}, "W");
  check(r, {directions, width, hidden}, "R");
  if (b) check(b, {directions, Expr(2) * width}, "B");
  TimeSteps s;
  s.steps = x->shape()[0];
  s.batch = x->shape()[1];
  s.zero_when_ended = operands.zero_when_ended;
  if (lengths) {
    require_integer(lengths, "sequence_lens");
    check(lengths, {s.batch}, "sequence_lens");
    if (!all_full(lengths, s.steps)) s.lengths = lengths;
  }
  std::vector<Var*> initial(cell.states);
  for (int i = 0; i < cell.states; ++i) {
    Var* v = operands.initial[static_cast<size_t>(i)];
    if (!v) continue;
    if (layout == 1) v = transpose(g, v, {1, 0, 2});
    check(v, {directions, s.batch, hidden}, i == 0 ? "initial_h" : "initial_c");
    initial[i] = widen(g, v);
  }
  Var* peepholes = operands.peepholes;
  if (peepholes) check(peepholes, {directions, Expr(3) * hidden}, "P");

  std::vector<std::vector<Activation>> activations = activations_of(n, cell, directions);
  Var* wide_x = widen(g, x);
  std::vector<Var*> sequences;
  std::vector<std::vector<Var*>> finals(cell.states);
  for (int d = 0; d < directions; ++d) {
    s.reverse = direction == "reverse" || d == 1;
    auto row = [&](Var* v, Expr start, Expr count) { return g.reindex({widen(g, v)}, {count}, {d, start + axis(0)}); };
    RecurrentWeights weights;
    weights.hidden = hidden;
    if (operands.product)
      weights.product = [&operands, d](Var* state) { return operands.product(state, true, d); };
    else
      weights.recurrent = g.reindex({widen(g, r)}, {hidden, width}, {d, axis(1), axis(0)});
    if (peepholes) weights.peepholes = row(peepholes, 0, Expr(3) * hidden);
    Var* inputs = operands.product ? operands.product(wide_x, false, d)
                                   : matmul(g, wide_x, g.reindex({widen(g, w)}, {features, width}, {d, axis(1), axis(0)}));
    if (b) {
      Var *of_input = row(b, 0, width), *of_state = row(b, width, width);
      if (cell.separate_recurrent_bias) weights.recurrent_bias = of_state;
      inputs = map(g, Fn::add, inputs, cell.separate_recurrent_bias ? of_input : map(g, Fn::add, of_input, of_state));
    }
    std::vector<Var*> start;
    for (Var* v : initial)
      start.push_back(v ? g.reindex({v}, {s.batch, hidden}, {d, axis(0), axis(1)})
                        : fill(g, {s.batch, hidden}, constant_of(wide_x->dtype(), 0)));
    auto [by_step, last] = run_steps(g, s, inputs, start, [&](Var* now, const std::vector<Var*>& states) {
      return cell.step(g, weights, activations[d], now, states);
    });
    sequences.push_back(unsqueeze(g, in_time_order(g, s, by_step), {1}));
    for (int i = 0; i < cell.states; ++i) finals[i].push_back(unsqueeze(g, last[i], {0}));
  }
  if (n.wants_output(0)) {
    Var* y = cast(g, concat(g, sequences, 1), dtype);  // [T, D, B, H]
    n.set_output(0, layout == 1 ? transpose(g, y, {2, 0, 1, 3}) : y);
  }
  for (int i = 0; i < cell.states; ++i) {
    if (!n.wants_output(1 + i)) continue;
    Var* y = cast(g, concat(g, finals[i], 0), dtype);  // [D, B, H]
    n.set_output(1 + i, layout == 1 ? transpose(g, y, {1, 0, 2}) : y);
  }
}

}  // namespace metac
