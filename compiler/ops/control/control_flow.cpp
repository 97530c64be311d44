// If and Loop, and what is left of optional values. A constant condition picks its branch at compile time; a short loop
// whose trips are known is unrolled. What is left becomes a region of the Graph.
#include <algorithm>

#include "compiler/ops/control/carried_loop.h"
#include "compiler/ops/control/sequences.h"
#include "compiler/ops/model_lowering.h"
#include "compiler/ops/shape_operands.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

// Do the inputs' shapes alone decide the condition?
bool depends_on_shapes_only(const Graph& g, Expr condition) {
  return !any_of(condition, [&](Expr e) { return e->kind == ExprKind::symbol && !g.symbols[e->id].from_input; });
}

bool ranks_agree(const std::vector<Var*>& a, const std::vector<Var*>& b) {
  for (size_t k = 0; k < a.size(); ++k)
    if (a[k]->rank() != b[k]->rank()) return false;
  return true;
}

// A branch and what it asks of symbols. A branch that cannot be lowered for these shapes is no error: it may be the one that
// is never taken.
struct Branch {
  const ModelGraph* graph;
  std::string_view name;
  Region region;
  std::vector<Requirement> requirements;
  std::string failure;  // empty: none
};

Branch lower_branch(Lowering& n, const char* name) {
  Graph& g = n.graph();
  Branch branch{n.subgraph(name), name, {}, {}, {}};
  if (branch.graph->outputs.size() != n.output_count())
    fail(name, " has ", branch.graph->outputs.size(), " outputs, the node ", n.output_count());
  size_t before = g.requirements.size();
  try {
    n.lower_subgraph(*branch.graph, {}, branch.region);
  } catch (const CompileError& e) {
    Diagnostic d = e.diagnostic;
    d.file.clear();
    branch.failure = d.text();
  }
  branch.requirements.assign(g.requirements.begin() + static_cast<int64_t>(before), g.requirements.end());
  g.requirements.resize(before);
  return branch;
}

// An integer condition as a bool.
Expr as_condition(Expr e) {
  if (Expr plain = as_index(e)) e = plain;
  if (is_bool(e->dtype)) return e;
  bool selects = e->kind == ExprKind::call && e->fn == Fn::select && e->args[1].is_int(1) && e->args[2].is_int(0);
  return selects ? e->args[0] : not_equal(e, Expr(0));
}

void lower_if(Lowering& n) {
  Graph& g = n.graph();
  Var* condition = n.input(0);
  if (!is_bool(condition->dtype())) fail("the condition must be bool, not ", name_of(condition->dtype()));
  g.require(equal(element_count(condition->shape()), Expr(1)),
            concat("the condition must have one element, its shape is ", to_string(condition->shape())));
  Expr holds = simplified(g, as_condition(g.element(condition, 0, "condition", 0, 1)));
  auto take = [&](const ModelGraph& branch) {
    if (branch.outputs.size() != n.output_count())
      fail("a branch has ", branch.outputs.size(), " outputs, the node ", n.output_count());
    std::vector<Var*> results = n.inline_subgraph(branch, {});
    for (size_t k = 0; k < results.size(); ++k) n.set_output(k, results[k]);
  };
  if (holds.if_int()) return take(*n.subgraph(holds.is_int(0) ? "else_branch" : "then_branch"));
  Attempt attempt(g);
  Branch yes = lower_branch(n, "then_branch"), no = lower_branch(n, "else_branch");
  if (!yes.failure.empty() && !no.failure.empty()) fail("neither branch can be compiled: ", yes.failure, "; ", no.failure);
  auto take_only = [&](const Branch& taken, Expr chosen, const std::string& why) {
    attempt.roll_back();
    g.require(chosen, concat("only ", taken.name, " was compiled: ", why));
    take(*taken.graph);
  };
  if (!yes.failure.empty()) return take_only(no, logical_not(holds), yes.failure);
  if (!no.failure.empty()) return take_only(yes, holds, no.failure);
  // Ranks are static. Exporters write a squeeze as "if the dim is 1, Squeeze, else Identity": where only the inputs' shapes
  // decide between different ranks, one branch is taken and its condition becomes a requirement on them.
  if (!ranks_agree(yes.region.results, no.region.results)) {
    const std::string why = concat("the branches differ in rank, and ", to_string(holds), " decides");
    if (!depends_on_shapes_only(g, holds)) {
      attempt.roll_back();
      throw BranchRanksDiffer({"", "", why});
    }
    return n.takes_then() ? take_only(yes, holds, why) : take_only(no, logical_not(holds), why);
  }
  for (const Requirement& r : yes.requirements) g.require(logical_or(logical_not(holds), r.condition), r.message);
  for (const Requirement& r : no.requirements) g.require(logical_or(holds, r.condition), r.message);
  Op* op = g.if_(to_scalar(g, condition, "the condition"), std::move(yes.region), std::move(no.region));
  for (size_t k = 0; k < op->outputs.size(); ++k) n.set_output(k, op->outputs[k]);
}
METAC_OPERATOR("If")
    .since({1, 11, 13, 16, 19, 21, 23, 24, 25})
    .inputs(1)
    .outputs(1, -1)
    .required("then_branch", Kind::graph)
    .required("else_branch", Kind::graph)
    .lower(lower_if);

std::optional<bool> known_bool(Graph& g, Var* x) {
  if (!x) return true;
  if (!is_bool(x->dtype())) fail("the condition must be bool, not ", name_of(x->dtype()));
  if (!element_count(x->shape()).is_int(1))
    fail("the condition must have one element, its shape is ", to_string(x->shape()));
  if (!x->constant && !(x->known_elements() && bool((*x->known_elements())[0]))) return std::nullopt;
  Expr e = simplified(g, g.element(x, 0));
  if (!e.if_int()) return std::nullopt;
  return !e.is_int(0);
}

void require_tensor(const Var* result) {
  if (is_sequence(result)) fail("the body gives a sequence in every iteration; only tensors are stacked");
}

// One row of a stacked output: a new leading axis of extent 1.
Var* as_row(Graph& g, Var* x) { return unsqueeze(g, x, {0}); }

// Runs the body `trips` times one after the other. False: a condition or a shape was not known, nothing was set.
bool unroll(Lowering& n, const ModelGraph& body, int64_t trips, std::vector<Var*> carried) {
  Graph& g = n.graph();
  size_t scans = body.outputs.size() - 1 - carried.size();
  std::vector<std::vector<Var*>> rows(scans);
  for (int64_t t = 0; t < trips; ++t) {
    std::vector<Var*> arguments = {scalar(g, DType::i64, static_cast<double>(t)), scalar(g, DType::boolean, 1)};
    arguments.insert(arguments.end(), carried.begin(), carried.end());
    std::vector<Var*> results = n.inline_subgraph(body, arguments);
    std::optional<bool> go_on = known_bool(g, results[0]);
    if (!go_on) return false;
    carried.assign(results.begin() + 1, results.begin() + 1 + carried.size());
    for (size_t k = 0; k < scans; ++k) require_tensor(results[1 + carried.size() + k]);
    for (size_t k = 0; k < scans; ++k) rows[k].push_back(as_row(g, results[1 + carried.size() + k]));
    if (!*go_on) break;
  }
  for (size_t k = 0; k < carried.size(); ++k) n.set_output(k, carried[k]);
  for (size_t k = 0; k < scans; ++k)
    if (n.wants_output(carried.size() + k)) n.set_output(carried.size() + k, concat(g, rows[k], 0));
  return true;
}

// The sequences among what a loop carries: each becomes two tensors, its elements one behind the other and their lengths.
class LoopSequences {
 public:
  // The body is lowered once on trial: what it appends tells the shape of elements.
  LoopSequences(Lowering& n, const ModelGraph& body, const std::vector<Var*>& initial) {
    if (std::none_of(initial.begin(), initial.end(), is_sequence)) return;
    Graph& g = n.graph();
    const int64_t first_symbol = static_cast<int64_t>(g.symbols.size());
    Attempt attempt(g);
    Region region;
    std::vector<Var*> results;
    {
      OpenRegion open(g, region);
      Symbol iteration;
      iteration.name = "iteration";
      std::vector<Var*> arguments = {scalar_of(g, symbol(g.add_symbol(iteration))), scalar(g, DType::boolean, 1)};
      arguments.insert(arguments.end(), initial.begin(), initial.end());
      results = n.inline_subgraph(body, arguments);
    }
    for (size_t k = 0; k < initial.size(); ++k) {
      if (is_sequence(initial[k]) != is_sequence(results[1 + k]))
        fail("the loop carries a sequence in and a tensor out, or the other way round");
      carried_.push_back(is_sequence(initial[k]) ? std::optional(appended_of(n.sequence_of(results[1 + k]), first_symbol))
                                                 : std::nullopt);
    }
    attempt.roll_back();
  }

  std::vector<Var*> as_tensors(Lowering& n, const std::vector<Var*>& values) const {
    std::vector<Var*> out;
    for (size_t k = 0; k < values.size(); ++k) {
      if (k >= carried_.size() || !carried_[k]) {
        out.push_back(values[k]);
        continue;
      }
      auto [elements, lengths] = as_pieces(n.graph(), n.sequence_of(values[k]), *carried_[k]);
      out.push_back(elements);
      out.push_back(lengths);
    }
    return out;
  }

  // The other way; what stands behind is left as it is.
  std::vector<Var*> as_values(Lowering& n, const std::vector<Var*>& tensors) const {
    std::vector<Var*> out;
    size_t at = 0;
    for (const auto& how : carried_) {
      if (how)
        out.push_back(n.keep_sequence(of_pieces(*how, tensors[at], tensors[at + 1])));
      else
        out.push_back(tensors[at]);
      at += how ? 2 : 1;
    }
    out.insert(out.end(), tensors.begin() + static_cast<int64_t>(at), tensors.end());
    return out;
  }

 private:
  std::vector<std::optional<Appended>> carried_;  // empty where the loop carries no sequence
};

void lower_loop(Lowering& n) {
  Graph& g = n.graph();
  const ModelGraph& body = *n.subgraph("body");
  Var *trip_count = n.optional_input(0), *condition = n.optional_input(1);
  std::vector<Var*> initial;
  for (size_t k = 2; k < n.input_count(); ++k) initial.push_back(n.input(k));
  if (body.inputs.size() != 2 + initial.size())
    fail("the body takes ", body.inputs.size(), " values, the loop carries ", initial.size(),
         " besides the iteration and the condition");
  if (body.outputs.size() < 1 + initial.size())
    fail("the body gives ", body.outputs.size(), " values, ", 1 + initial.size(),
         " are needed for the condition and what is carried");
  if (body.outputs.size() - 1 != n.output_count())
    fail("the body gives ", body.outputs.size() - 1, " values besides the condition, the node has ", n.output_count(),
         " outputs");
  if (trip_count) {
    if (!is_integer(trip_count->dtype())) fail("the trip count must be an integer, not ", name_of(trip_count->dtype()));
    trip_count = to_scalar(g, trip_count, "the trip count");
  }
  Expr trips;
  if (trip_count && (trip_count->constant || (trip_count->known_elements() && bool((*trip_count->known_elements())[0]))))
    trips = max(index_scalar(g, trip_count, "the trip count"), 0);
  std::optional<bool> starts = known_bool(g, condition);
  if (starts && !*starts) trips = 0;

  // Unroll what is short. Whether the body's condition is known shows in the attempt.
  constexpr int64_t most_unrolled_nodes = 64;
  if (starts && bool(trips) && trips.if_int() && trips.as_int() > 0 && trips.as_int() <= 4 &&
      trips.as_int() * static_cast<int64_t>(body.nodes.size()) <= most_unrolled_nodes) {
    Attempt attempt(g);
    if (unroll(n, body, trips.as_int(), initial)) return;
    attempt.roll_back();
  }

  const LoopSequences sequences(n, body, initial);
  CarriedLoop loop;
  loop.trip_count = starts && !*starts ? scalar(g, DType::i64, 0) : trip_count;
  loop.condition = starts ? nullptr : to_scalar(g, condition, "the condition");
  loop.trips = trips;
  loop.initial = sequences.as_tensors(n, initial);
  Op* op = loop.build(g, [&](Expr iteration, const std::vector<Var*>& carried) {
    // Inside the body its condition holds.
    std::vector<Var*> arguments = {scalar_of(g, iteration), scalar(g, DType::boolean, 1)};
    for (Var* value : sequences.as_values(n, carried)) arguments.push_back(value);
    std::vector<Var*> results = n.inline_subgraph(body, arguments);
    std::vector<Var*> next(results.begin() + 1, results.begin() + 1 + static_cast<int64_t>(initial.size()));
    std::vector<Var*> rows(results.begin() + 1 + static_cast<int64_t>(initial.size()), results.end());
    for (const Var* row : rows) require_tensor(row);
    next = sequences.as_tensors(n, next);
    next.insert(next.begin(), results[0]);
    next.insert(next.end(), rows.begin(), rows.end());
    results = next;
    std::optional<bool> go_on = known_bool(g, results[0]);
    bool always = go_on && *go_on;
    // Where the first condition is open, the number of iterations is no function of the trip count alone.
    results[0] = !always          ? to_scalar(g, results[0], "the condition")
                 : loop.condition ? scalar(g, DType::boolean, 1)
                                  : nullptr;
    return results;
  });
  const std::vector<Var*> results = sequences.as_values(n, op->outputs);
  for (size_t k = 0; k < results.size(); ++k) n.set_output(k, results[k]);
}
METAC_OPERATOR("Loop")
    .since({1, 11, 13, 16, 19, 21, 23, 24, 25})
    .inputs(2, -1)
    .outputs(1, -1)
    .required("body", Kind::graph)
    .takes_sequences()
    .lower(lower_loop);

// Of what this build knows, a tensor is always there, and an input that is left out never.
METAC_OPERATOR("OptionalHasElement").since({15, 18, 28}).inputs(0, 1).outputs(1).takes_sequences().lower([](Lowering& n) {
  n.set_output(0, scalar(n.graph(), DType::boolean, n.optional_input(0) ? 1 : 0));
});
METAC_OPERATOR("OptionalGetElement").since({15, 18, 28}).inputs(1).outputs(1).takes_sequences().lower([](Lowering& n) {
  n.set_output(0, n.input(0));
});

}  // namespace
}  // namespace metac
