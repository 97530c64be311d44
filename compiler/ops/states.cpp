#include "compiler/ops/states.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/ir/bounds.h"
#include "compiler/ir/builders.h"
#include "compiler/ir/reads.h"
#include "compiler/ops/model.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

// ---- names ----
struct Spelling {
  const char *input, *output;  // parts of a name: one in the other's place makes the other name
};
constexpr Spelling within[] = {{"past_key_values", "present_key_values"},
                               {"past_key_values", "present"},
                               {"past", "present"},
                               {"cache_in", "cache_out"},
                               {"state_in", "state_out"}};
constexpr Spelling behind[] = {{"state", "stateN"},
                               {"state", "state_out"},
                               {"hidden", "hidden_out"},
                               {"_in", "_out"},
                               {"h", "hn"},
                               {"c", "cn"},
                               {"h0", "hn"},
                               {"c0", "cn"},
                               {"h_0", "h_n"},
                               {"c_0", "c_n"},
                               {"cache", "cache_out"}};
constexpr const char* before[] = {"next_", "new_"};

std::vector<std::string> possible_outputs(const std::string& input) {
  std::vector<std::string> names;
  for (const Spelling& s : within)
    if (size_t at = input.find(s.input); at != std::string::npos)
      names.push_back(std::string(input).replace(at, std::string(s.input).size(), s.output));
  for (const Spelling& s : behind) {
    const std::string end = s.input;
    if (input.size() >= end.size() && input.compare(input.size() - end.size(), end.size(), end) == 0)
      names.push_back(input.substr(0, input.size() - end.size()) + s.output);
  }
  for (const char* s : before) names.push_back(s + input);
  return names;
}

bool may_be_pair(const Value& input, const Value& output) {
  const ValueType &a = input.type, &b = output.type;
  if (a.containers != b.containers || (a.dtype && b.dtype && *a.dtype != *b.dtype)) return false;
  if (!a.shape || !b.shape) return true;
  int known_to_differ = 0;  // a cache of so many steps may be one longer afterwards
  for (size_t k = 0; k < a.shape->size() && k < b.shape->size(); ++k) {
    const int64_t before_run = (*a.shape)[k].value, after_run = (*b.shape)[k].value;
    known_to_differ += before_run >= 0 && after_run >= 0 && before_run != after_run;
  }
  return a.shape->size() == b.shape->size() && known_to_differ <= 1;
}

// ---- how a state is kept ----
std::string text_of(const StateNames& names) { return concat(quoted(names.input), " and ", quoted(names.output)); }

// Is it the input with something put behind it along the axis (concat() of builders.h)?
bool is_put_behind(const Var* output, const Var* input, int axis_grown) {
  const Op* op = output->producer;
  if (!op || op->kind != OpKind::elementwise || op->inputs.size() < 2 || op->bodies.size() != 1) return false;
  const Expr body = op->bodies[0];
  if (body->kind != ExprKind::call || body->fn != Fn::select || body->args[1]->kind != ExprKind::load) return false;
  const Expr kept = body->args[1];
  if (body->args[0] != (axis(axis_grown) < input->shape()[static_cast<size_t>(axis_grown)])) return false;
  const Op* old = op->inputs[static_cast<size_t>(kept->id)]->producer;
  return kept->args == identity_indices(output->rank()) && old && old->kind == OpKind::reindex && old->inputs[0] == input &&
         old->indices == identity_indices(input->rank());
}

bool is_known_before_a_run(const Graph& g, Expr e) {
  bool known = true;
  visit_symbols(e, [&](int id) { known &= g.symbols[static_cast<size_t>(id)].from_input; });
  return known;
}

bool mentions(Expr e, Expr symbol) {
  bool found = false;
  visit_symbols(e, [&](int id) { found |= id == symbol->id; });
  return found;
}

class StateTaker {
 public:
  StateTaker(Graph& graph, const std::vector<StateNames>& names) : g_(graph), names_(names) {}

  void run() {
    std::set<size_t> inputs, outputs;
    for (const StateNames& n : names_) {
      const size_t input = input_named(n), output = output_named(n);
      if (!inputs.insert(input).second || !outputs.insert(output).second)
        fail("state ", text_of(n), ": a value is in one state alone");
      add(n, input, output);
    }
    move_behind(g_.inputs, &State::input);
    const std::vector<size_t> order = order_of(g_.outputs.size(), &State::output);
    std::vector<std::string> named;
    for (size_t k : order) named.push_back(k < g_.output_names.size() ? g_.output_names[k] : g_.outputs[k]->name);
    g_.output_names = std::move(named);
    move_behind(g_.outputs, &State::output);
    const size_t first_input = g_.inputs.size() - g_.states.size(), first_output = g_.outputs.size() - g_.states.size();
    for (size_t k = 0; k < g_.states.size(); ++k) {
      g_.states[k].input = first_input + k;
      g_.states[k].output = first_output + k;
    }
  }

 private:
  size_t input_named(const StateNames& n) const {
    for (size_t k = 0; k < g_.inputs.size(); ++k)
      if (g_.inputs[k]->name == n.input) return k;
    fail("state ", text_of(n), ": the model has no input ", quoted(n.input));
  }
  size_t output_named(const StateNames& n) const {
    for (size_t k = 0; k < g_.output_names.size(); ++k)
      if (g_.output_names[k] == n.output) return k;
    fail("state ", text_of(n), ": the model has no output ", quoted(n.output));
  }

  // Is it a dim of an input that is no state?
  bool is_told(Expr dim) const {
    return std::any_of(g_.inputs.begin(), g_.inputs.end(), [&](const Var* in) {
      const Shape& shape = in->shape();
      return !in->is_state && std::find(shape.begin(), shape.end(), dim) != shape.end();
    });
  }

  void add(const StateNames& n, size_t input, size_t output) {
    const Var *in = g_.inputs[input], *out = g_.outputs[output];
    if (in->dtype() != out->dtype() || in->rank() != out->rank())
      fail("state ", text_of(n), ": the input is ", name_of(in->dtype()), to_string(in->shape()), ", the output ",
           name_of(out->dtype()), to_string(out->shape()));
    constexpr int most_axes = 64;  // StateSet::most_rank
    if (in->rank() > most_axes) fail("state ", text_of(n), ": ", in->rank(), " axes, ", most_axes, " are the most");
    State state{input, output};
    for (int k = 0; k < in->rank(); ++k) {
      const Expr before_run = in->shape()[static_cast<size_t>(k)], after_run = out->shape()[static_cast<size_t>(k)];
      if (before_run == after_run) continue;
      const bool open = before_run->kind == ExprKind::symbol;
      const bool longer = Bounds(g_.symbols).proves_at_least(after_run - before_run, Expr(1));
      // Dims of other names, one that another input tells, or that the file fixes and the nodes do not know: the run is
      // told.
      if (open ? !mentions(after_run, before_run) || (!longer && is_told(before_run)) : !after_run.if_int() && !longer) {
        g_.require(equal(before_run, after_run), concat("state ", text_of(n), ": axis ", k, " changes"));
        continue;
      }
      if (!open || state.axis >= 0)
        fail("state ", text_of(n), ": the input has shape ", to_string(in->shape()), ", the output ",
             to_string(out->shape()), ", which the next run does not take",
             open ? "" : "; leave the dim along which it grows open (--shape, --dim)");
      state.axis = k;
    }
    if (state.axis >= 0)
      g_.symbols[static_cast<size_t>(in->shape()[static_cast<size_t>(state.axis)]->id)].may_be_none = true;
    if (state.axis >= 0 && is_put_behind(out, in, state.axis) &&
        is_known_before_a_run(g_, out->shape()[static_cast<size_t>(state.axis)]))
      state.capacity = capacity_of(in->shape()[static_cast<size_t>(state.axis)]);
    g_.states.push_back(state);
  }

  // States that are as long as each other have storage as long as each other's: kernels that differ in nothing else are one.
  int capacity_of(Expr length) {
    const auto found = capacities_.find(length->id);
    if (found != capacities_.end()) return found->second;
    const Symbol& of = g_.symbols[static_cast<size_t>(length->id)];
    Symbol s;
    s.name = concat("room for ", of.name);
    s.min = of.stated_min();
    s.hint = of.hint * 2;
    s.from_input = true;
    return capacities_[length->id] = g_.add_symbol(s);
  }

  std::vector<size_t> order_of(size_t count, size_t State::*position) const {
    std::vector<size_t> order;
    const auto is_state = [&](size_t k) {
      return std::any_of(g_.states.begin(), g_.states.end(), [&](const State& s) { return s.*position == k; });
    };
    for (size_t k = 0; k < count; ++k)
      if (!is_state(k)) order.push_back(k);
    for (const State& s : g_.states) order.push_back(s.*position);
    return order;
  }

  void move_behind(std::vector<Var*>& vars, size_t State::*position) const {
    std::vector<Var*> moved;
    for (size_t k : order_of(vars.size(), position)) moved.push_back(vars[k]);
    vars = std::move(moved);
  }

  Graph& g_;
  const std::vector<StateNames>& names_;
  std::map<int, int> capacities_;  // by the symbol that is the length
};

}  // namespace

void add_last_step(Graph& graph, const std::string& output) {
  const size_t given_inputs = graph.inputs.size() - graph.states.size();
  const size_t given = graph.outputs.size() - graph.states.size();
  constexpr size_t most_given = 6;  // behind more it would have no bit of its own (OutputSets) and be made in every run
  for (size_t k = 0; k < given; ++k) {
    Var* const all = graph.outputs[k];
    if (graph.output_names[k] != output || all->rank() < 2 || given > most_given) continue;
    const int axis = all->rank() - 2;
    const Dim steps = all->shape()[static_cast<size_t>(axis)];
    const bool known = std::any_of(graph.inputs.begin(), graph.inputs.begin() + static_cast<long>(given_inputs),
                                   [&](const Var* in) { return in->rank() > 0 && in->shape().back() == steps; });
    if (!known || steps.is_int(1) || !Bounds(graph.symbols).proves_at_least(steps, Expr(1))) continue;
    Var* const last = slice(graph, all, {axis}, {steps - Expr(1)}, {Expr(1)}, {Expr(1)});
    graph.outputs.insert(graph.outputs.begin() + static_cast<long>(given), last);
    graph.output_names.insert(graph.output_names.begin() + static_cast<long>(given), output + " of the last step");
    graph.last_step_of = static_cast<int>(k);
    for (State& s : graph.states) ++s.output;
    return;
  }
}

std::vector<StateNames> known_states(const Model& model) {
  std::vector<StateNames> states;
  std::set<std::string> taken, parameters;
  for (const Initializer& p : model.graph.initializers) parameters.insert(p.name);
  for (const Value& input : model.graph.inputs) {
    if (parameters.count(input.name)) continue;
    for (const std::string& name : possible_outputs(input.name)) {
      const auto output = std::find_if(model.graph.outputs.begin(), model.graph.outputs.end(),
                                       [&](const Value& v) { return v.name == name; });
      if (output == model.graph.outputs.end() || !may_be_pair(input, *output) || !taken.insert(name).second) continue;
      states.push_back({input.name, name});
      break;
    }
  }
  return states;
}

void take_states(Graph& graph, const std::vector<StateNames>& states) {
  if (!states.empty()) StateTaker(graph, states).run();
}

}  // namespace metac
