// Executor, what launches are told by sizes. Where the inputs' dims alone decide it, it is worked out once and kept until
// they change: small networks with open dims spend a fifth of a run on such numbers otherwise.
#pragma once
#include "executor.h"

namespace METAC_RUNTIME_NAMESPACE {

// Finds the steps whose numbers the inputs' dims decide: the other symbols get their values while a run goes on.
template <class Device>
bool ExecutorOn<Device>::find_known_launches() {
  const Program& p = *program_;
  Array<char> of_inputs;  // per symbol
  if (!launches_.allocate(p.step_count) || !of_inputs.allocate(p.symbol_count)) return false;
  for (int32_t k = 0; k < p.source_count; ++k) of_inputs[p.sources[k].symbol] = 1;
  const auto decided = [&](const Extent& extent) {
    for (int32_t k = 0; k < extent.length; ++k)
      if (const Instruction& at = p.code[extent.value + k]; at.code == Code::symbol && !of_inputs[at.value]) return false;
    return true;
  };
  for (int32_t i = 0; i < p.step_count; ++i) {
    const Step& s = p.steps[i];
    launches_[i].lasting = s.kind == StepKind::launch && decided(s.parallel) && decided(s.scratch_bytes) &&
                           (s.carried <= 0 || decided(p.extents[s.carried - 1]));
  }
  return true;
}

template <class Device>
const typename ExecutorOn<Device>::LaunchNumbers* ExecutorOn<Device>::numbers_of(const Step& step) {
  LaunchNumbers& known = launches_[static_cast<int32_t>(&step - program_->steps)];
  if (known.lasting && known.shape == shape_) return &known;
  known.shape = 0;
  known.iterations = step.parallel.value;
  known.scratch_bytes = step.scratch_bytes.value;
  if (step.parallel.length != 0 && !value_of(step.parallel, &known.iterations)) return nullptr;
  if (step.scratch_bytes.length != 0 && !value_of(step.scratch_bytes, &known.scratch_bytes)) return nullptr;
  if (known.iterations > 0 && (known.scratch_bytes < 0 || known.scratch_bytes > most_bytes)) {
    internal("the scratch memory of a launch");
    return nullptr;
  }
  known.scratch_bytes = align_up(known.scratch_bytes);
  known.cost = cost_of(step);
  known.shape = shape_;
  return &known;
}

}  // namespace METAC_RUNTIME_NAMESPACE
