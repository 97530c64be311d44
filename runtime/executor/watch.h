// Executor, the search for the step that made the first NaN. Slow: everything that a step touches is read after it.
#pragma once
#include "executor.h"

namespace METAC_RUNTIME_NAMESPACE {

// The operands of step `i` that steps write: values of the arena and outputs. `visit(buffer, data, bytes)` for each.
template <class Device>
template <class Visit>
bool ExecutorOn<Device>::visit_written(int32_t i, Visit visit) {
  const Step& step = program_->steps[i];
  if (step.kind != StepKind::launch && step.kind != StepKind::external && step.kind != StepKind::copy) return true;
  for (int32_t k = step.first; k < step.first + step.count; ++k) {
    if (program_->operands[k] < 0) continue;
    const int32_t buffer = root(program_->operands[k]);
    const Buffer& b = program_->buffers[buffer];
    if (b.kind != BufferKind::arena && b.kind != BufferKind::output) continue;
    int64_t bytes = 0;
    if (data_[buffer] == nullptr) continue;  // made while running
    if (!bytes_of(buffer, &bytes)) return false;
    visit(buffer, data_[buffer], b.late && bytes > capacity_[buffer] ? capacity_[buffer] : bytes);
  }
  return true;
}

// Runs step `i`. Memory that is touched for the first time is cleared before: what it held belongs to other values.
template <class Device>
bool ExecutorOn<Device>::run_watched(int32_t i) {
  if constexpr (Here::separate) return run_step(program_->steps[i]);
  const bool ready = visit_written(i, [&](int32_t buffer, void* data, int64_t bytes) {
    if (!watch_->touched[buffer]) std::memset(data, 0, static_cast<size_t>(bytes));
    watch_->touched[buffer] = 1;
  });
  if (!ready || !run_step(program_->steps[i])) return false;
  return visit_written(i, [&](int32_t buffer, void* data, int64_t bytes) {
    const ScalarType type = program_->buffers[buffer].dtype;
    const NonFiniteCount found = search_non_finite(type, data, bytes / size_of(type));
    if (found.first_nan >= 0 && watch_->first_nan_step < 0) watch_->first_nan_step = i;
    if (found.first_infinity >= 0 && watch_->first_infinity_step < 0) watch_->first_infinity_step = i;
  });
}

}  // namespace METAC_RUNTIME_NAMESPACE
