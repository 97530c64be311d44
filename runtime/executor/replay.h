// Executor, runs that repeat. A GPU starts kernels one by one more slowly than it runs small ones, so where a run finds the
// same memory and the same shapes as an earlier one, its steps are recorded (a CUDA graph) and from then on started
// as one. What the caller has on the host is copied before and behind. Where the memory is the same and the shapes are others
// (a cache that is longer by a token), what is recorded is brought up to date: the steps are gone through, and each kernel's
// part of the recording is changed (Graph::starts) instead of being started. Such a recording is one step behind the
// other: which of them touch the same memory is another question at other sizes. Steps up to the last one in which the host
// looks at data while running (symbols bound on the way, branches, loops, routines) are not recorded.
#pragma once
#include "executor.h"

namespace METAC_RUNTIME_NAMESPACE {

// A program's steps for certain memory, of which a device keeps a few: callers that change between two buffers repeat, and
// so do those with two such pairs (the states of two networks of which one is trained more often than the other).
template <class Graph>
struct Recording {
  Array<void*> data;       // per buffer
  Array<int64_t> symbols;  // that matter
  void* scratch = nullptr;
  uint8_t wanted = 0;     // outputs
  bool used = false;      // a run with these has been; `graph` is made at the second
  bool noted = false;     // what that run started is known
  bool in_order = false;  // `graph` is one step behind the other
  bool changed = false;   // and not what `symbols` say any more: it has to be changed before it is of use
  Graph graph;
};

// From which step on runs are recorded, and what they depend on. False: no memory.
template <class Device>
bool ExecutorOn<Device>::find_repeatable() {
  const Program& p = *program_;
  repeatable_ = Here::records;
  for (int32_t i = 0; i < p.buffer_count; ++i) repeatable_ &= !p.buffers[i].late;
  if (!repeatable_) return true;
  bool binds_unknown = false;  // what routines and branches bind is not known here
  for (int32_t i = 0; i < p.top_level_steps; ++i) switch (p.steps[i].kind) {
      case StepKind::launch:
      case StepKind::copy:
      case StepKind::assign:
      case StepKind::check:
        break;
      case StepKind::repeat:
        if (p.steps[i].then_begin < head_) head_ = i + 1;
        break;
      default:
        binds_unknown |= p.steps[i].kind != StepKind::bind;
        head_ = i + 1;
    }
  constexpr int32_t least = 4;  // steps that are worth it
  if (head_ > 0 && (p.top_level_steps - head_ < least || p.load_count > 0 || p.exchange_count > 0)) repeatable_ = false;
  if (!repeatable_) return true;
  const auto visit = [&](auto take) {
    for (int32_t k = 0; k < p.symbol_count && binds_unknown; ++k) take(k);
    if (binds_unknown) return;
    for (int32_t k = 0; k < p.source_count; ++k) take(p.sources[k].symbol);
    for (int32_t k = 0; k < p.state_count; ++k)
      if (p.states[k].capacity >= 0) take(p.states[k].capacity);
    for (int32_t i = 0; i < head_; ++i)
      if (p.steps[i].kind == StepKind::bind) take(p.steps[i].symbol);
  };
  int32_t count = 0;
  visit([&](int32_t) { ++count; });
  if (!recorded_symbols_.allocate(count)) return false;
  count = 0;
  visit([&](int32_t symbol) { recorded_symbols_[count++] = symbol; });
  return true;
}

template <class Device>
bool ExecutorOn<Device>::run_program() {
  if constexpr (Here::records) {
    if (repeatable_ && times_ == nullptr && watch_ == nullptr) return run_steps(0, head_) && run_repeatable();
  }
  return run_top(0);
}

// in_order: and not what does not touch each other's memory as branches of the graph.
template <class Device>
bool ExecutorOn<Device>::record(typename Here::Graph& graph, bool in_order) {
  int32_t most = exchanger_ != nullptr ? program_->exchange_count : 0;
  for (int32_t i = 0; i < program_->top_level_steps; ++i)
    if (program_->steps[i].count > most) most = program_->steps[i].count;
  const int32_t lanes = in_order ? 1 : exchanger_ != nullptr ? LanePlan::all_lanes : LanePlan::most_lanes;
  if (!Here::begin_recording(*device_, lanes)) return false;
  if (in_order) Here::begin_starts(*device_, graph, Here::Starts::records);
  recording_ = !in_order && (spans_.size() > most || spans_.allocate(most + 1)) && lanes_.start();
  bool good = run_top(head_);
  recording_ = false;
  if (in_order) good = Here::end_starts(*device_, graph) && good;
  if (Here::end_recording(*device_, graph) && good) return true;
  graph.forget();
  failure_.clear();
  return false;
}

// The recording at the sizes of this run. False: it is of no use for them, but may be for others.
template <class Device>
bool ExecutorOn<Device>::change(Recording<typename Here::Graph>& r) {
  const bool had = r.graph.made();
  bool good = had;
  if (had) {
    Here::begin_starts(*device_, r.graph, Here::Starts::changes);
    good = run_top(head_);
    good = Here::end_starts(*device_, r.graph) && good;
  } else {
    good = record(r.graph, true);
  }
  good = good && r.scratch == working_->scratch.data();
  r.in_order = r.in_order || good;
  r.changed = had && !good;
  if (!good) return failure_.clear(), false;
  for (int64_t k = 0; k < recorded_symbols_.size(); ++k) r.symbols[k] = symbols_[recorded_symbols_[k]];
  return true;
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

// An ordinary run, which another one in the same memory may repeat.
template <class Device>
bool ExecutorOn<Device>::run_noted(Recording<typename Here::Graph>& r) {
  const Program& p = *program_;
  r.used = r.in_order = r.changed = false;
  r.graph.forget();
  Here::begin_starts(*device_, r.graph, Here::Starts::notes);
  const bool good = run_top(head_);
  r.noted = Here::end_starts(*device_, r.graph);
  if (!good) return false;
  if (r.data.size() == 0 && (!r.data.allocate(p.buffer_count) || !r.symbols.allocate(recorded_symbols_.size()))) return true;
  std::memcpy(r.data.data(), data_.data(), static_cast<size_t>(p.buffer_count) * sizeof(void*));
  for (int64_t k = 0; k < recorded_symbols_.size(); ++k) r.symbols[k] = symbols_[recorded_symbols_[k]];
  r.scratch = working_->scratch.data();
  r.wanted = wanted_;
  r.used = true;
  return true;
}

template <class Device>
bool ExecutorOn<Device>::run_repeatable() {
  const Program& p = *program_;
  const auto is_here = [&](const auto& r) {
    return r.used && r.wanted == wanted_ && r.scratch == working_->scratch.data() &&
           std::memcmp(r.data.data(), data_.data(), static_cast<size_t>(p.buffer_count) * sizeof(void*)) == 0;
  };
  const auto same_symbols = [&](const auto& r) {
    for (int64_t k = 0; k < recorded_symbols_.size(); ++k)
      if (r.symbols[k] != symbols_[recorded_symbols_[k]]) return false;
    return true;
  };
  for (auto& r : recordings_) {
    if (!is_here(r) || r.changed || !same_symbols(r)) continue;
    if (r.graph.made()) return Here::replay(*device_, r.graph, failure_);
    if (record(r.graph, false)) return Here::replay(*device_, r.graph, failure_);
    repeatable_ = false;  // this driver does not: step by step from now on
    return run_top(head_);
  }
  constexpr int32_t most_in_vain = 64;  // then sizes are thought to be others every time
  const bool may_change = p.load_count == 0 && exchanger_ == nullptr;
  for (const bool made : {true, false})
    for (auto& r : recordings_) {
      if (!may_change || in_vain_ >= most_in_vain || !is_here(r) || !r.noted || r.graph.made() != made ||
          (made && !r.in_order))
        continue;
      if (!change(r)) {
        ++in_vain_;
        continue;
      }
      in_vain_ = 0;
      return Here::replay(*device_, r.graph, failure_);
    }
  Recording<typename Here::Graph>& r = recordings_[next_recording_];
  next_recording_ = (next_recording_ + 1) % recording_count;
  return run_noted(r);
}

}  // namespace METAC_RUNTIME_NAMESPACE
