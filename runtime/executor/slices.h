// Executor, slices of a batch (StepKind::repeat) side by side. Where a chain of launches is repeated for each slice, a
// worker takes whole slices through all of it: what it has written is still in its own cache when it reads it, and workers
// wait for each other once a chain instead of once a launch. What begins and ends within the chain, each worker has in
// memory of its own (the first: in the arena). Bits do not depend on who computes a slice. In a run that is profiled each
// worker times its kernels; the time of the whole chain is shared out among them as those times are.
#pragma once
#include "executor.h"

namespace METAC_RUNTIME_NAMESPACE {

// Before any run: at which steps of the top level a chain begins that can be done so, and where it ends.
template <class Device>
bool ExecutorOn<Device>::find_chains() {
  if constexpr (Here::separate) return true;
  const Program& p = *program_;
  if (!chains_.allocate(p.top_level_steps)) return false;
  int32_t end_time = 0;
  for (int32_t end = 0; end < p.top_level_steps; end_time += times_of(end, end + 1), ++end) {
    const Step& repeat = p.steps[end];
    if (repeat.kind != StepKind::repeat || repeat.carried == 0) continue;
    bool plain = repeat.then_begin < end;
    for (int32_t i = repeat.then_begin; i < end && plain; ++i) {
      const Step& s = p.steps[i];
      plain = (s.kind == StepKind::launch && s.inputs == 0) || s.kind == StepKind::assign;
      for (int32_t k = s.first; k < s.first + s.count && plain; ++k)
        plain = p.operands[k] < 0 || !p.buffers[root(p.operands[k])].late;
    }
    if (plain) chains_[repeat.then_begin] = {end, end_time};  // launches and assignments alone: each counts once
  }
  return true;
}

// One worker's view of a chain.
struct SliceWorker {
  void** operands;
  int64_t* symbols;
  int64_t* times;  // per step of the chain: ns
  char* scratch;
};

struct SliceChain {
  const Program* program;
  const Step *first, *repeat;
  char* memory;                                               // of all workers
  int64_t symbols_at, times_at, scratch_at, bytes_of_worker;  // behind a worker's operands; with its scratch
  int64_t bytes_of_values;                                    // what begins and ends within the chain, of one worker
  int32_t first_operand;
  bool timed;
  const std::atomic<bool>* stopped;  // null: nobody stops it

  SliceWorker worker(int32_t k) const {
    char* own = memory + k * bytes_of_worker;
    return {reinterpret_cast<void**>(own), reinterpret_cast<int64_t*>(own + symbols_at),
            reinterpret_cast<int64_t*>(own + times_at), own + scratch_at};
  }

  // Of all workers but the first, behind what they all have.
  char* values(int32_t k, int32_t workers) const { return memory + workers * bytes_of_worker + (k - 1) * bytes_of_values; }
  int64_t bytes(int32_t workers) const { return workers * bytes_of_worker + (workers - 1) * bytes_of_values; }

  static void run(void* state, int32_t worker, int64_t begin, int64_t end) {
    const SliceChain& c = *static_cast<const SliceChain*>(state);
    const SliceWorker w = c.worker(worker);
    for (int64_t slice = begin; slice < end; ++slice) {
      w.symbols[c.repeat->symbol] = slice;
      for (const Step* s = c.first; s != c.repeat; ++s) {
        if (c.stopped != nullptr && c.stopped->load(std::memory_order_relaxed)) return;
        const int64_t start = c.timed ? now_ns() : 0;
        int64_t value = s->parallel.value;
        if (s->parallel.length != 0 && !evaluate(*c.program, s->parallel, w.symbols, &value)) value = 0;  // it was tried
        if (s->kind == StepKind::assign)
          w.symbols[s->symbol] = value;
        else if (value > 0)
          c.program->kernels[s->kernel](w.operands + (s->first - c.first_operand), w.symbols, w.scratch, 0, value);
        if (c.timed) w.times[s - c.first] += now_ns() - start;
      }
    }
  }
};

// Gives the symbols their values in a slice, and notes the scratch memory that a worker needs in it.
template <class Device>
bool ExecutorOn<Device>::enter_slice(const Step& repeat, int32_t begin, int32_t end, int64_t slice, int64_t* scratch_bytes) {
  symbols_[repeat.symbol] = slice;
  for (int32_t i = begin; i < end; ++i) {
    const Step& s = program_->steps[i];
    int64_t value = 0;
    if (s.kind == StepKind::assign ? !run_step(s) : !value_of(s.parallel, &value) || !value_of(s.scratch_bytes, &value))
      return false;
    if (s.kind == StepKind::launch && value > *scratch_bytes) *scratch_bytes = value;
  }
  return true;
}

// Does the chain that begins at this step for all slices. False: failed, or it is to be done step by step, because too many
// workers would have no slice or as much memory again as the arena's would not do.
template <class Device>
bool ExecutorOn<Device>::run_slices(int32_t begin) {
  const Program& p = *program_;
  const int32_t end = chains_[begin].end, end_time = chains_[begin].end_time, begin_time = end_time - (end - begin);
  const Step& repeat = p.steps[end];
  const int32_t workers = device_->workers();
  int64_t count = repeat.parallel.value;
  if (repeat.parallel.length != 0 && !value_of(repeat.parallel, &count)) return false;
  const int64_t turns = (count + workers - 1) / workers;
  if (symbols_[repeat.symbol] != 0) return false;  // they are being done, one after the other
  constexpr double least_busy = 0.8;               // of the workers, in the mean over turns
  if (workers < 2 || static_cast<double>(count) < least_busy * static_cast<double>(turns * workers)) return false;

  // The chain's own values lie in a part of the arena; others have the same part elsewhere.
  const auto is_own = [&](int32_t buffer) {
    const Buffer& b = p.buffers[buffer];
    return b.kind == BufferKind::arena && b.first_step >= begin_time && b.last_step <= end_time;
  };
  char *low = nullptr, *high = nullptr;
  int64_t scratch_bytes = 0, cost = 0;
  int32_t first_operand = INT32_MAX, last_operand = 0;
  // The last slice may be the shortest: all extents are tried with it, then with the first.
  if (!enter_slice(repeat, begin, end, count - 1, &scratch_bytes) || !enter_slice(repeat, begin, end, 0, &scratch_bytes))
    return false;
  for (int32_t i = begin; i < end; ++i) {
    const Step& s = p.steps[i];
    if (s.kind == StepKind::assign) continue;
    int64_t iterations = s.parallel.value, each = cost_of(s), ns = 0;
    if (s.parallel.length != 0 && !value_of(s.parallel, &iterations)) return false;
    if (__builtin_mul_overflow(iterations, each, &ns) || __builtin_add_overflow(cost, ns, &cost)) cost = INT64_MAX;
    if (s.first < first_operand) first_operand = s.first;
    if (s.first + s.count > last_operand) last_operand = s.first + s.count;
    for (int32_t k = s.first; k < s.first + s.count; ++k) {
      if (p.operands[k] < 0 || !is_own(root(p.operands[k]))) continue;
      int64_t bytes = 0;
      if (!bytes_of(root(p.operands[k]), &bytes)) return false;
      char* at = static_cast<char*>(data_[root(p.operands[k])]);
      if (low == nullptr || at < low) low = at;
      if (at + bytes > high) high = at + bytes;
    }
  }
  SliceChain chain{};
  chain.program = &p;
  chain.first = &p.steps[begin];
  chain.repeat = &repeat;
  chain.first_operand = first_operand;
  chain.symbols_at = align_up((last_operand - first_operand) * int64_t{sizeof(void*)});
  chain.timed = times_ != nullptr;
  chain.stopped = stopped_;
  chain.times_at = chain.symbols_at + align_up(p.symbol_count * int64_t{sizeof(int64_t)});
  chain.scratch_at = chain.times_at + align_up((end - begin) * int64_t{sizeof(int64_t)});
  chain.bytes_of_worker = chain.scratch_at + align_up(scratch_bytes);
  chain.bytes_of_values = align_up(high - low);
  if (chain.bytes_of_values * (workers - 1) > planned_bytes_ + alignment) return false;
  if (!working_->slices.reserve(chain.bytes(workers))) return no_memory(chain.bytes(workers), "slices of a batch");
  chain.memory = static_cast<char*>(working_->slices.data());
  for (int32_t w = 0; w < workers; ++w) {
    const SliceWorker worker = chain.worker(w);
    std::memcpy(worker.symbols, symbols_.data(), static_cast<size_t>(p.symbol_count) * sizeof(int64_t));
    std::memset(worker.times, 0, static_cast<size_t>(end - begin) * sizeof(int64_t));
    std::memcpy(worker.operands, &operand_data_[first_operand],
                static_cast<size_t>(last_operand - first_operand) * sizeof(void*));
    for (int32_t k = first_operand; k < last_operand && w > 0; ++k)
      if (p.operands[k] >= 0 && is_own(root(p.operands[k])))
        worker.operands[k - first_operand] = chain.values(w, workers) + (static_cast<char*>(operand_data_[k]) - low);
  }
  const int64_t start = chain.timed ? now_ns() : 0;
  device_->run(count, cost, &SliceChain::run, &chain);
  if (is_stopped()) return stop();
  symbols_[repeat.symbol] = count;
  if (!chain.timed) return true;
  const int64_t ns = now_ns() - start;
  const auto of_all = [&](int32_t i) {
    int64_t sum = 0;
    for (int32_t w = 0; w < workers; ++w) sum += chain.worker(w).times[i - begin];
    return static_cast<double>(sum);
  };
  double sum = 0;
  for (int32_t i = begin; i < end; ++i) sum += of_all(i);
  for (int32_t i = begin; i < end; ++i)
    note(i, count - 1, sum > 0 ? static_cast<int64_t>(static_cast<double>(ns) * of_all(i) / sum) : 0);
  if (!enter_slice(repeat, begin, end, count - 1, &scratch_bytes)) return false;
  for (int32_t i = begin; i < end; ++i) note(i, 1, 0);
  symbols_[repeat.symbol] = count;
  nested_ns_ += ns;
  return true;
}

}  // namespace METAC_RUNTIME_NAMESPACE
