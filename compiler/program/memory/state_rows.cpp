#include "compiler/program/memory/state_rows.h"

#include <algorithm>

namespace metac {
namespace {

bool is_handed_on(const Var* output, const Var* input) {
  const Op* op = output->producer;
  if (!op || (op->kind != OpKind::elementwise && op->kind != OpKind::reindex)) return false;
  if (op->inputs.size() != 1 || op->inputs[0] != input || output->shape() != input->shape()) return false;
  const std::vector<Expr> same = identity_indices(input->rank());
  if (op->kind == OpKind::reindex) return op->conditions.empty() && op->indices == same;
  return op->bodies.size() == 1 && op->bodies[0]->kind == ExprKind::load && op->bodies[0]->args == same &&
         op->bodies[0]->dtype == output->dtype();
}

// A state that a run writes over must not be half written where the run ends with an error.
bool fails_early(const CompiledProgram& program) {
  bool launched = false;
  return std::all_of(program.steps.begin(), program.steps.end(), [&](const rt::Step& s) {
    const bool works = s.kind == rt::StepKind::launch || s.kind == rt::StepKind::copy;
    launched |= works;
    return works || s.kind == rt::StepKind::assign || s.kind == rt::StepKind::repeat || s.kind == rt::StepKind::beside ||
           (s.kind == rt::StepKind::check && !launched);
  });
}

}  // namespace

const State* state_in_place(const Graph& graph, const Var* output) {
  for (const State& s : graph.states)
    if (graph.outputs[s.output] == output && (s.capacity >= 0 || is_handed_on(output, graph.inputs[s.input]))) return &s;
  return nullptr;
}

bool lies_there(const Graph& graph, const Group& group) {
  if (graph.states.empty() || group.stages.size() != 1) return false;
  const Definition& d = group.stages[0];
  const State* state = d.is_plain() ? state_in_place(graph, d.out) : nullptr;
  return state && d.body->kind == ExprKind::load && d.body->id == graph.inputs[state->input]->id &&
         d.body->args == d.out_index;
}

void share_with_states(const Graph& graph, Kernel& kernel) {
  for (const KernelArgument& made : kernel.arguments) {
    const State* state = made.written ? state_in_place(graph, made.var) : nullptr;
    for (KernelArgument& a : kernel.arguments)
      a.shares_memory |= state && (a.var == made.var || a.var == graph.inputs[state->input]);
  }
}

std::vector<rt::StateInfo> state_rows(const Graph& graph, const CompiledProgram& program) {
  std::vector<rt::StateInfo> rows;
  const bool early = fails_early(program);
  for (const State& s : graph.states) {
    const bool over = early && program.outputs[s.output].overwrites == static_cast<int>(s.input);
    const rt::StateMemory kept = s.capacity >= 0                                  ? rt::StateMemory::grows
                                 : state_in_place(graph, graph.outputs[s.output]) ? rt::StateMemory::stays
                                 : over                                           ? rt::StateMemory::written_over
                                                                                  : rt::StateMemory::two_places;
    rows.push_back({static_cast<int32_t>(s.input), static_cast<int32_t>(s.output), s.axis, s.capacity, kept});
  }
  return rows;
}

}  // namespace metac
