// What one run of a program does, as far as that is known before it: how often each step is done, and what the launches of
// each kernel do together. What is known in a run alone, its profile counts (runtime/executor/executor.h).
#pragma once
#include <optional>

#include "compiler/machine/chain_costs.h"
#include "compiler/program/program.h"

namespace metac {

// Of each step. Empty: the data decide (a branch; a loop whose number of iterations is no constant).
std::vector<std::optional<int64_t>> step_counts(const CompiledModel& model, const CompiledProgram& program);

struct KernelWork {
  std::optional<int64_t> launches = 0;
  Work work;  // of all launches, over symbols that inputs bind; empty where it is not known
};

std::vector<KernelWork> kernel_works(const CompiledModel& model, const CompiledProgram& program);

// `part` of `whole` where both are numbers or multiples of one product of dims; empty elsewhere.
std::optional<double> share_of(Expr part, Expr whole);

// What one of a launch's `tasks` costs in ns, of which `cost` is known for open dims as hinted: in proportion to the work
// that is left to a task. Empty where that is about the same at all sizes or not known, and without costs (a GPU's).
Expr cost_by_size(int64_t cost, const Work& work, Expr tasks, const std::optional<ChainCosts>& costs,
                  const std::vector<Symbol>& symbols);

// Of a routine or a user's code: what it reads and writes.
Work host_work(const Op& op);

}  // namespace metac
