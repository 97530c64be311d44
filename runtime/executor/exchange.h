// Executor, a run of one of several processes that train together: values are exchanged as soon as they are there, while
// steps go on, and waited for where they are needed.
//
// On a GPU steps and exchanges are put onto streams. Values are handed over some at once, before the first of them is read.
// While a run is recorded the exchanges have a lane of their own: they go on beside the steps, and who touches such a value
// waits for it, as for any step (lanes.h). Runs step by step do one after the other.
#pragma once
#include "executor.h"

namespace METAC_RUNTIME_NAMESPACE {

template <class Device>
bool ExecutorOn<Device>::run_exchanging() {
  const Program& p = *program_;
  const auto failed = [&] {
    return failure_.ok() ? failure_.set(Status::internal, "what processes exchange did not arrive") : false;
  };
  int32_t begun = 0, border = 0;  // steps [border, ...) are to run
  const auto wait_for = [&](int32_t step) {
    for (int32_t e = 0; e < begun; ++e)
      if (p.exchanges[e].needed <= step && !exchanger_->wait(exchanger_->user, p.exchanges[e].index)) return false;
    return true;
  };
  while (border < p.top_level_steps) {
    // As many steps as may run before anything is there or needed.
    int32_t end = p.top_level_steps;
    if (begun < p.exchange_count && p.exchanges[begun].ready + 1 < end) end = p.exchanges[begun].ready + 1;
    for (int32_t e = 0; e < begun; ++e)
      if (p.exchanges[e].needed > border && p.exchanges[e].needed < end) end = p.exchanges[e].needed;
    if (!wait_for(border)) return failed();
    if (!run_steps(border, end)) return false;
    border = end;
    for (; begun < p.exchange_count && p.exchanges[begun].ready < border; ++begun) {
      const Exchange& e = p.exchanges[begun];
      int64_t bytes = 0;
      if (!bytes_of(e.buffer, &bytes)) return false;
      if (!exchanger_->begin(exchanger_->user, e.index, data_[root(e.buffer)], p.buffers[e.buffer].dtype, bytes))
        return failed();
    }
  }
  return wait_for(p.top_level_steps) || failed();
}

constexpr int64_t exchanged_at_once = int64_t{8} << 20;  // bytes, on a GPU: one start of NCCL's kernel

template <class Device>
bool ExecutorOn<Device>::run_exchanging_on_device() {
  const Program& p = *program_;
  int32_t handed = 0, made = 0,
          border = 0;  // exchanges [handed, made) are there and wait for others; steps [border, ...) are to run
  int64_t bytes = 0;
  const auto least_needed = [&] {
    int32_t least = p.top_level_steps;
    for (int32_t e = handed; e < made; ++e)
      if (p.exchanges[e].needed < least) least = p.exchanges[e].needed;
    return least;
  };
  while (border < p.top_level_steps) {
    int32_t end = least_needed();
    if (made < p.exchange_count && p.exchanges[made].ready + 1 < end) end = p.exchanges[made].ready + 1;
    if (!run_steps(border, end)) return false;
    border = end;
    for (; made < p.exchange_count && p.exchanges[made].ready < border; ++made) {
      const Exchange& e = p.exchanges[made];
      ExchangedValue& value = exchanged_[made];
      if (!bytes_of(e.buffer, &value.bytes)) return false;
      value.data = data_[root(e.buffer)];
      value.dtype = p.buffers[e.buffer].dtype;
      bytes += value.bytes;
    }
    if (handed == made || (bytes < exchanged_at_once && least_needed() > border)) continue;
    if (!average(handed, made - handed)) return false;
    handed = made;
    bytes = 0;
  }
  return true;
}

template <class Device>
bool ExecutorOn<Device>::average(int32_t first, int32_t count) {
  if (recording_) {
    for (int32_t k = 0; k < count; ++k) {
      const uintptr_t begin = reinterpret_cast<uintptr_t>(exchanged_[first + k].data);
      spans_[k] = {begin, begin + static_cast<uintptr_t>(exchanged_[first + k].bytes), true};
    }
    if (!take_lane(count, LanePlan::exchange_lane)) return false;
  }
  if (exchanger_->average(exchanger_->user, &exchanged_[first], count, Here::stream(*device_))) return true;
  return failure_.ok() ? failure_.set(Status::internal, "what processes exchange could not be averaged") : false;
}

template <class Device>
void ExecutorOn<Device>::exchange(const Exchanger* exchanger) {
  exchanger_ = exchanger;
  if constexpr (Here::records) {
    if (exchanger_ != nullptr && !exchanged_.allocate(program_->exchange_count)) exchanger_ = nullptr;
    for (auto& r : recordings_) {
      r.used = false;
      r.graph.forget();
    }
  }
}

// The steps of a run, and what is exchanged on the way.
template <class Device>
bool ExecutorOn<Device>::run_top(int32_t begin) {
  if (exchanger_ != nullptr) {
    if constexpr (Here::records)
      return run_exchanging_on_device();
    else if constexpr (!Here::separate)
      return run_exchanging();
  }
  return run_steps(begin, program_->top_level_steps);
}

}  // namespace METAC_RUNTIME_NAMESPACE
