#include "compiler/ops/control/carried_loop.h"

#include <algorithm>

#include "compiler/support/diagnostic.h"

namespace metac {

Attempt::Attempt(Graph& graph)
    : graph_(graph), ops_(graph.open_ops().size()), requirements_(graph.requirements.size()), vars_(graph.vars().size()) {}

void Attempt::roll_back() {
  graph_.requirements.resize(requirements_);
  std::vector<Op*>& ops = graph_.open_ops();
  // A Bind of an older Var stays: the Graph remembers its symbol and would hand it out again.
  auto is_new = [&](const Op* op) { return op->kind != OpKind::bind || op->inputs[0]->id >= static_cast<int>(vars_); };
  ops.erase(std::remove_if(ops.begin() + static_cast<int64_t>(ops_), ops.end(), is_new), ops.end());
}

namespace {

using Flags = std::vector<std::vector<bool>>;  // per carried value and axis: does the dim change?

Flags flags_for(const std::vector<Var*>& initial, bool value) {
  Flags out;
  for (const Var* x : initial) out.emplace_back(x->rank(), value);
  return out;
}

struct Trial {
  Region region;
  std::vector<int> symbols;  // of the dims that vary, in the order of the carried values and their axes
};

Trial build_body(Graph& g, const CarriedLoop& loop, const CarriedLoop::Body& body, const Flags& varies) {
  Trial trial;
  Symbol iteration;
  iteration.name = "iteration";
  if (bool(loop.trips) && loop.trips.if_int()) iteration.max = std::max<int64_t>(loop.trips.as_int() - 1, 0);
  trial.region.iteration = g.add_symbol(iteration);
  for (size_t k = 0; k < loop.initial.size(); ++k) {
    Type type = loop.initial[k]->type;
    for (size_t d = 0; d < type.shape.size(); ++d) {
      if (!varies[k][d]) continue;
      Symbol s;
      s.name = concat("carried", k, "_", d);
      trial.symbols.push_back(g.add_symbol(s));
      type.shape[d] = symbol(trial.symbols.back());
    }
    trial.region.params.push_back(g.make_var(type, concat("carried ", k)));
  }
  OpenRegion open(g, trial.region);
  trial.region.results = body(symbol(trial.region.iteration), trial.region.params);
  METAC_ASSERT(trial.region.results.size() >= loop.initial.size() + 1);
  return trial;
}

// Marks the dims in which results differ from what is carried. True: nothing new.
bool shapes_fit(const Trial& trial, Flags& varies) {
  bool fit = true;
  for (size_t k = 0; k < trial.region.params.size(); ++k) {
    const Var *before = trial.region.params[k], *after = trial.region.results[1 + k];
    if (before->dtype() != after->dtype() || before->rank() != after->rank())
      fail("the carried value ", k, " is ", name_of(before->dtype()), " ", to_string(before->shape()), " and becomes ",
           name_of(after->dtype()), " ", to_string(after->shape()), "; dtype and rank must stay");
    for (int d = 0; d < before->rank(); ++d) {
      if (varies[k][d] || before->shape()[d] == after->shape()[d]) continue;
      varies[k][d] = true;
      fit = false;
    }
  }
  return fit;
}

// Dims that were taken to vary and do not.
bool unmark_invariant(const Trial& trial, Flags& varies) {
  bool any = false;
  for (size_t k = 0; k < trial.region.params.size(); ++k)
    for (int d = 0; d < trial.region.params[k]->rank(); ++d)
      if (varies[k][d] && trial.region.params[k]->shape()[d] == trial.region.results[1 + k]->shape()[d]) {
        varies[k][d] = false;
        any = true;
      }
  return any;
}

}  // namespace

Op* CarriedLoop::build(Graph& g, const Body& body) const {
  Flags varies = flags_for(initial, false);
  Trial trial;
  // Every round marks at least one more dim, so this ends.
  for (;;) {
    Attempt attempt(g);
    try {
      trial = build_body(g, *this, body, varies);
    } catch (const CompileError&) {
      // The initial shapes may be too special (an empty tensor that grows): try with every dim open.
      attempt.roll_back();
      Flags all = flags_for(initial, true);
      if (initial.empty() || varies == all) throw;
      bool helped = false;
      try {
        trial = build_body(g, *this, body, all);
        helped = true;
      } catch (const CompileError&) {
        attempt.roll_back();
      }
      if (!helped) throw;
      shapes_fit(trial, all);
      varies = all;
      if (!unmark_invariant(trial, varies)) break;
      attempt.roll_back();
      continue;
    }
    if (shapes_fit(trial, varies)) break;
    attempt.roll_back();
  }
  Op* op = g.loop(trip_count, condition, initial, std::move(trial.region));
  op->symbols.insert(op->symbols.end(), trial.symbols.begin(), trial.symbols.end());
  return op;
}

}  // namespace metac
