// Executor, chains of launches side by side (StepKind::beside): a worker does all launches of a chain, one behind the other
// and alone, while others do other chains. Workers wait for each other once, behind all chains, instead of once a launch.
// Bits do not depend on who computes a chain. In a run that is profiled workers time their launches; the time of all chains
// is shared out among them as those times are.
#pragma once
#include "executor.h"

namespace METAC_RUNTIME_NAMESPACE {

// Of one run of such chains.
struct ChainsBeside {
  const Program* program;
  int32_t head;           // the first
  void* const* operands;  // of the whole program
  const int64_t* symbols;
  char* scratch;
  int64_t scratch_bytes;             // of a worker
  int64_t* times;                    // per step from the first head on: ns; null: they are not timed
  const std::atomic<bool>* stopped;  // null: nobody stops them

  static void run(void* state, int32_t worker, int64_t begin, int64_t end) {
    const ChainsBeside& c = *static_cast<const ChainsBeside*>(state);
    int32_t head = c.head;
    for (int64_t k = 0; k < end; head = c.program->steps[head].then_end, ++k)
      if (k >= begin) c.run_chain(head, c.scratch + worker * c.scratch_bytes);
  }

  void run_chain(int32_t of, char* own_scratch) const {
    for (int32_t i = of + 1; i < program->steps[of].then_end; ++i) {
      if (stopped != nullptr && stopped->load(std::memory_order_relaxed)) return;
      const Step& s = program->steps[i];
      const int64_t start = times != nullptr ? now_ns() : 0;
      int64_t iterations = 0;  // it was tried
      if (evaluate(*program, s.parallel, symbols, &iterations) && iterations > 0)
        program->kernels[s.kernel](operands + s.first, symbols, own_scratch, 0, iterations);
      if (times != nullptr) times[i - head] = now_ns() - start;
    }
  }
};

// Does all chains from this head on. False: failed, or they are to be done launch by launch.
template <class Device>
bool ExecutorOn<Device>::run_beside(int32_t head) {
  const Program& p = *program_;
  const Step& first = p.steps[head];
  const int32_t workers = device_->workers();
  if (first.carried == 0 || workers < 2 || workers > first.stacked || watch_ != nullptr) return false;
  int64_t scratch_bytes = 0;
  for (int32_t i = head; i < first.else_end; ++i) {
    const Step& s = p.steps[i];
    if (s.kind == StepKind::beside) continue;
    int64_t value = 0;
    if (!value_of(s.parallel, &value) || !value_of(s.scratch_bytes, &value)) return false;
    if (value < 0 || value > most_bytes) return internal("the scratch memory of a launch");
    if (value > scratch_bytes) scratch_bytes = value;
  }
  scratch_bytes = align_up(scratch_bytes);
  const int64_t times_bytes = times_ != nullptr ? (first.else_end - head) * int64_t{sizeof(int64_t)} : 0;
  int64_t all = 0;
  if (__builtin_mul_overflow(scratch_bytes, int64_t{workers}, &all)) return no_memory(scratch_bytes, "scratch memory");
  if (all + times_bytes > working_->scratch.capacity() && !working_->scratch.reserve(all + times_bytes))
    return no_memory(all, "scratch memory");
  char* const scratch = static_cast<char*>(working_->scratch.data());
  ChainsBeside chains{&p, head, operand_data_.data(), symbols_.data(), scratch, scratch_bytes, nullptr, stopped_};
  if (times_ != nullptr) {
    chains.times = reinterpret_cast<int64_t*>(scratch + all);
    std::memset(chains.times, 0, static_cast<size_t>(times_bytes));
  }
  const int64_t start = times_ != nullptr ? now_ns() : 0;
  device_->run(first.carried, first.cost, &ChainsBeside::run, &chains);
  if (is_stopped()) return stop();
  if (times_ == nullptr) return true;
  const int64_t ns = now_ns() - start;
  double sum = 0;
  for (int32_t i = head; i < first.else_end; ++i) sum += static_cast<double>(chains.times[i - head]);
  for (int32_t i = head; i < first.else_end; ++i) {
    const double part = sum > 0 ? static_cast<double>(chains.times[i - head]) / sum : 0;
    if (p.steps[i].kind == StepKind::launch) note(i, 1, static_cast<int64_t>(static_cast<double>(ns) * part));
  }
  nested_ns_ += ns;
  return true;
}

}  // namespace METAC_RUNTIME_NAMESPACE
