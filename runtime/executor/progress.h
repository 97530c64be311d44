// Executor, who hears how far a run is: steps of the top level, about every millisecond, and the end where anything was
// told.
#pragma once
#include "executor.h"

namespace METAC_RUNTIME_NAMESPACE {

constexpr int64_t progress_ns = 1000000;

// Before a step of the top level. A chain of slices goes back: what was done stays done.
template <class Device>
void ExecutorOn<Device>::tell_progress(int32_t step) {
  const int64_t now = now_ns();
  if (now - progress_.told_at < progress_ns) return;
  progress_.told_at = now;
  if (step > progress_.done) progress_.done = step;
  progress_.told = true;
  listener_->tell(listener_->user, progress_.done, program_->top_level_steps);
}

template <class Device>
void ExecutorOn<Device>::begin_progress() {
  if (listener_ != nullptr) progress_ = {now_ns(), 0, false};
}

template <class Device>
void ExecutorOn<Device>::end_progress() {
  if (listener_ != nullptr && progress_.told)
    listener_->tell(listener_->user, program_->top_level_steps, program_->top_level_steps);
}

}  // namespace METAC_RUNTIME_NAMESPACE
