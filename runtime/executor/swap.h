// Executor, weights that do not all fit onto a GPU (Program::loads). They lie in page-locked memory of the host; a window on
// the card holds those that stay and a ring through which the others pass. Before a step is started, what the one behind it
// reads is put onto the stream: in a recorded run the copy is a branch of its own, which waits only for the steps that read
// what it overwrites (lanes.h).
#pragma once
#include "executor.h"

namespace METAC_RUNTIME_NAMESPACE {

// Where each operand will be when its step is started; what stays is copied in if it has not been.
template <class Device>
bool ExecutorOn<Device>::place_window() {
  const Program& p = *program_;
  if (!window_.reserve(p.window_bytes + alignment)) return no_memory(p.window_bytes, "weights on the device");
  int32_t next = 0;
  for (; next < p.load_count && p.loads[next].step < 0; ++next) {
    if (!window_filled_ && !load(p.loads[next])) return false;
    data_[p.loads[next].buffer] = window_at(p.loads[next]);
  }
  window_filled_ = true;
  for (int32_t i = 0; i < p.top_level_steps; ++i) {
    for (; next < p.load_count && p.loads[next].step == i; ++next) data_[p.loads[next].buffer] = window_at(p.loads[next]);
    place_operands(i, i + 1);
  }
  return true;
}

template <class Device>
void ExecutorOn<Device>::place_operands(int32_t begin, int32_t end) {
  for (int32_t i = begin; i < end; ++i) {
    const Step& s = program_->steps[i];
    for (int32_t k = s.first; k < s.first + s.count; ++k) {
      const int32_t operand = program_->operands[k];
      if (operand >= 0 && program_->buffers[root(operand)].kind == BufferKind::weight)
        operand_data_[k] = data_[root(operand)];
    }
    if (s.kind == StepKind::branch || s.kind == StepKind::loop) place_operands(s.then_begin, s.then_end);
    if (s.kind == StepKind::branch) place_operands(s.else_begin, s.else_end);
  }
}

template <class Device>
bool ExecutorOn<Device>::load(const Load& l) {
  const Buffer& b = program_->buffers[l.buffer];
  return Here::to_device(*device_, window_at(l), static_cast<const char*>(weights_) + b.offset, b.bytes.value, failure_);
}

// Before a step of the top level.
template <class Device>
bool ExecutorOn<Device>::swap_in(int32_t step) {
  const Program& p = *program_;
  if (step == 0) {
    for (next_load_ = 0; next_load_ < p.load_count && p.loads[next_load_].step < 0;) ++next_load_;
    next_arrival_ = next_load_;
  }
  for (; next_load_ < p.load_count && p.loads[next_load_].step <= step + 1; ++next_load_) {
    const Load& l = p.loads[next_load_];
    if constexpr (Here::records) {
      const uintptr_t begin = reinterpret_cast<uintptr_t>(window_at(l));
      if (recording_) spans_[0] = {begin, begin + static_cast<uintptr_t>(p.buffers[l.buffer].bytes.value), true};
      if (recording_ && !take_lane(1, -1)) return false;
    }
    if (!load(l)) return false;
  }
  for (; next_arrival_ < p.load_count && p.loads[next_arrival_].step <= step; ++next_arrival_)
    data_[p.loads[next_arrival_].buffer] = window_at(p.loads[next_arrival_]);
  return true;
}

}  // namespace METAC_RUNTIME_NAMESPACE
