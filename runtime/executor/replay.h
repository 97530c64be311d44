// Executor, runs that repeat. A GPU starts kernels one by one more slowly than it runs small ones, so where a run finds the
// same memory and the same shapes as an earlier one, its steps are recorded (a CUDA graph) and from then on started
// as one. What the caller has on the host is copied before and behind. Programs in which the host looks at data while
// running (symbols bound on the way, branches, loops, routines) are not recorded.
#pragma once
#include "executor.h"

namespace METAC_RUNTIME_NAMESPACE {

// A program's steps for certain memory, of which a device keeps a few: callers that change between two buffers repeat, and
// so do those with two such pairs (the states of two networks of which one is trained more often than the other).
template <class Graph>
struct Recording {
  Array<void*> data;       // per buffer
  Array<int64_t> symbols;  // per source
  void* scratch = nullptr;
  uint8_t wanted = 0;  // outputs
  bool used = false;   // a run with these has been; `graph` is made at the second
  Graph graph;
};

template <class Device>
bool ExecutorOn<Device>::is_repeatable() const {
  for (int32_t i = 0; i < program_->top_level_steps; ++i) switch (program_->steps[i].kind) {
      case StepKind::launch:
      case StepKind::copy:
      case StepKind::assign:
      case StepKind::repeat:
      case StepKind::check:
        break;
      default:
        return false;
    }
  for (int32_t i = 0; i < program_->buffer_count; ++i)
    if (program_->buffers[i].late) return false;
  return true;
}

template <class Device>
bool ExecutorOn<Device>::run_program() {
  if constexpr (Here::records) {
    if (repeatable_ && times_ == nullptr && watch_ == nullptr) return run_repeatable();
  }
  return run_top();
}

// Steps that do not touch each other's memory become branches of the graph.
template <class Device>
bool ExecutorOn<Device>::record(typename Here::Graph& graph) {
  int32_t most = exchanger_ != nullptr ? program_->exchange_count : 0;
  for (int32_t i = 0; i < program_->top_level_steps; ++i)
    if (program_->steps[i].count > most) most = program_->steps[i].count;
  if (!Here::begin_recording(*device_, exchanger_ != nullptr ? LanePlan::all_lanes : LanePlan::most_lanes)) return false;
  recording_ = (spans_.size() > most || spans_.allocate(most + 1)) && lanes_.start();
  const bool good = run_top();
  recording_ = false;
  if (Here::end_recording(*device_, graph) && good) return true;
  failure_.clear();
  return false;
}

// Before a step of a recorded run is started: where it goes, and behind what.
template <class Device>
bool ExecutorOn<Device>::take_lane(const Step& step, int64_t scratch_bytes) {
  int32_t count = 0;
  for (int32_t k = 0; k < step.count; ++k) {
    const int32_t operand = program_->operands[step.first + k];
    if (operand < 0) continue;
    int64_t bytes = 0;
    if (!bytes_of(operand, &bytes)) return false;
    const uintptr_t begin = reinterpret_cast<uintptr_t>(data_[root(operand)]);
    const int32_t place = step.kind == StepKind::launch && step.inputs > 0 ? k % step.inputs : k;
    const bool written = step.kind == StepKind::launch ? (step.element >> (place < 62 ? place : 62) & 1) != 0 : k == 1;
    spans_[count++] = {begin, begin + static_cast<uintptr_t>(bytes), written};
  }
  const uintptr_t scratch = reinterpret_cast<uintptr_t>(working_->scratch.data());
  if (scratch_bytes > 0) spans_[count++] = {scratch, scratch + static_cast<uintptr_t>(scratch_bytes), true};
  return take_lane(count, -1);
}

// The first `count` of spans_ are what it touches.
template <class Device>
bool ExecutorOn<Device>::take_lane(int32_t count, int32_t forced) {
  bool waits[LanePlan::all_lanes];
  const int32_t lane = lanes_.place(spans_.data(), count, waits, forced);
  return Here::use_lane(*device_, lane, waits, LanePlan::all_lanes, failure_);
}

template <class Device>
bool ExecutorOn<Device>::run_repeatable() {
  const Program& p = *program_;
  const auto same_symbols = [&](const auto& r) {
    for (int32_t k = 0; k < p.source_count; ++k)
      if (r.symbols[k] != symbols_[p.sources[k].symbol]) return false;
    return true;
  };
  const size_t bytes = static_cast<size_t>(p.buffer_count) * sizeof(void*);
  for (auto& r : recordings_) {
    if (!r.used || r.wanted != wanted_ || r.scratch != working_->scratch.data() ||
        std::memcmp(r.data.data(), data_.data(), bytes) != 0 || !same_symbols(r))
      continue;
    if (r.graph.made()) return Here::replay(*device_, r.graph, failure_);
    if (record(r.graph)) return Here::replay(*device_, r.graph, failure_);
    repeatable_ = false;  // this driver does not: step by step from now on
    return run_top();
  }
  if (!run_top()) return false;
  auto& r = recordings_[next_recording_];
  next_recording_ = (next_recording_ + 1) % recording_count;
  r.used = false;
  r.graph.forget();
  if (r.data.size() == 0 && (!r.data.allocate(p.buffer_count) || !r.symbols.allocate(p.source_count))) return true;
  std::memcpy(r.data.data(), data_.data(), bytes);
  for (int32_t k = 0; k < p.source_count; ++k) r.symbols[k] = symbols_[p.sources[k].symbol];
  r.scratch = working_->scratch.data();
  r.wanted = wanted_;
  r.used = true;
  return true;
}

}  // namespace METAC_RUNTIME_NAMESPACE
