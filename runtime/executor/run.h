// Executor, second half: the steps.
#pragma once
#include "executor.h"

namespace METAC_RUNTIME_NAMESPACE {

template <class Device>
Status ExecutorOn<Device>::run(const InputView* inputs, int32_t input_count, const OutputView* outputs, int32_t output_count,
                               bool detached) {
  if (running_.exchange(true, std::memory_order_acquire)) return Status::busy;  // failure_ belongs to the other thread
  failure_.clear();
  detached_ = detached;
  begin_progress();
  const Program& p = *program_;
  bool good = bind_inputs(inputs, input_count);
  if (good && output_count != p.output_count)
    good = failure_.set(Status::invalid_argument, "%d outputs given, the model has %d", output_count, p.output_count);
  good = good && Here::enter(*device_, failure_) && take_inputs(inputs, input_count);
  good = good && place_outputs(outputs) && place_buffers() && run_program() && deliver(outputs);
  if (good) end_progress();
  if constexpr (Here::caches)
    if (good) give_back(p.top_level_steps);
  if (Failure unused; !good) Here::leave(*device_, unused);  // what has begun is not waited for
  const Status status = failure_.status;
  running_.store(false, std::memory_order_release);
  return status;
}

// Where the inputs are: the caller's memory, or copies on the device.
template <class Device>
bool ExecutorOn<Device>::take_inputs(const InputView* inputs, int32_t count) {
  if constexpr (Here::separate) {
    int64_t all = 0;
    for (int32_t i = 0; i < count; ++i) {
      int64_t bytes = 0;
      if (!bytes_of(root(program_->inputs[i].buffer), &bytes)) return false;
      if (inputs[i].data != nullptr && !inputs[i].resident && !Here::in_place(inputs[i].data)) all += align_up(bytes);
    }
    if (!Here::begin_inputs(*device_, all, failure_)) return false;
  }
  for (int32_t i = 0; i < count; ++i) {
    const int32_t buffer = root(program_->inputs[i].buffer);
    int64_t bytes = 0;
    const bool known = bytes_of(buffer, &bytes);
    if (inputs[i].data == nullptr && known && bytes > 0)
      return failure_.set(Status::invalid_argument, "input \"%s\": no data", input_name(*program_, i));
    data_[buffer] = const_cast<void*>(inputs[i].data);
    if constexpr (Here::separate) {
      if (!known) return false;
      if (!inputs[i].resident && !Here::in_place(inputs[i].data)) {
        const int64_t before = owned_[buffer].capacity();
        // An input that grows from run to run, as a mask does beside a cache, does not take other memory every time.
        if (bytes > before && !owned_[buffer].reserve(before > 0 ? bytes + bytes / 2 : bytes))
          return no_memory(bytes, "an input on the device");
        owned_bytes_ += owned_[buffer].capacity() - before;
        data_[buffer] = owned_[buffer].data();
        if (bytes > 0 && !Here::take_input(*device_, data_[buffer], inputs[i].data, bytes, failure_)) return false;
      }
    }
    capacity_[buffer] = INT64_MAX;
  }
  if constexpr (Here::separate) return Here::end_inputs(*device_, failure_);
  return true;
}

template <class Device>
bool ExecutorOn<Device>::run_steps(int32_t begin, int32_t end) {
  for (int32_t i = begin; i < end; ++i) {
    if constexpr (!Here::separate)
      if (listener_ != nullptr && i < program_->top_level_steps) tell_progress(i);
    if (is_stopped()) return stop();
    if constexpr (Here::separate)
      if (program_->load_count > 0 && i < program_->top_level_steps && !swap_in(i)) return false;
    if constexpr (Here::caches)
      if (passing_count_ > 0 && i < program_->top_level_steps) give_back(i);
    if (!is_wanted(i)) continue;
    if (const Step& step = program_->steps[i]; step.kind == StepKind::repeat) {
      int64_t count = step.parallel.value;
      if (step.parallel.length != 0 && !value_of(step.parallel, &count)) return false;
      if (++symbols_[step.symbol] < count) i = step.then_begin - 1;
      continue;
    }
    if (const Step& step = program_->steps[i]; step.kind == StepKind::beside) {
      if constexpr (!Here::separate) {
        if (wanted_ == all_outputs && run_beside(i)) i = step.else_end - 1;
        if (!failure_.ok()) return false;
      }
      continue;
    }
    if constexpr (!Here::separate)
      if (i < program_->top_level_steps && chains_[i].end > 0 && chains_[i].end < end && watch_ == nullptr) {
        if (run_slices(i)) {
          i = chains_[i].end;
          continue;
        }
        if (!failure_.ok()) return false;
      }
    if (times_ == nullptr || watch_ != nullptr) {
      if (watch_ == nullptr ? !run_step(program_->steps[i]) : !run_watched(i)) return false;
      continue;
    }
    if (!run_timed(i)) return false;
  }
  return true;
}

// A step of a run that is profiled.
template <class Device>
bool ExecutorOn<Device>::run_timed(int32_t i) {
  const int64_t before = nested_ns_, start = now_ns();
  nested_ns_ = 0;
  if (!run_step(program_->steps[i]) || !Here::wait(*device_, failure_)) return false;
  const int64_t ns = now_ns() - start;
  note(i, 1, ns - nested_ns_);
  nested_ns_ = before + ns;
  return true;
}

template <class Device>
void ExecutorOn<Device>::note(int32_t i, int64_t runs, int64_t ns) {
  const Step& step = program_->steps[i];
  int64_t iterations = 1;
  const bool idle =
      step.kind == StepKind::launch && evaluate(*program_, step.parallel, symbols_.data(), &iterations) && iterations <= 0;
  const auto add = [&](double& sum, const Extent& extent) {
    int64_t value = 0;
    const bool known = sum >= 0 && evaluate(*program_, extent, symbols_.data(), &value) && value >= 0;
    StepTime::write(sum, known ? sum + static_cast<double>(value) * static_cast<double>(runs) : -1.0);
  };
  StepTime& time = times_[i];
  StepTime::write(time.ns, time.ns + ns);
  StepTime::write(time.runs, time.runs + runs);
  if (idle) return;
  const StepWork unknown{{-1, 0}, {-1, 0}}, &work = program_->work == nullptr ? unknown : program_->work[i];
  add(time.operations, work.operations);
  add(time.bytes, work.bytes);
}

template <class Device>
bool ExecutorOn<Device>::run_step(const Step& step) {
  switch (step.kind) {
    case StepKind::launch:
      return launch(step);
    case StepKind::bind:
      return bind(step);
    case StepKind::external:
      return external(step);
    case StepKind::check:
      return check(step);
    case StepKind::branch:
      return branch(step);
    case StepKind::loop:
      return loop(step);
    case StepKind::copy:
      if constexpr (Here::records)
        if (recording_ && !take_lane(step, 0)) return false;
      return copy(program_->operands[step.first], program_->operands[step.first + 1]);
    case StepKind::repeat:
    case StepKind::beside:
      return true;  // run_steps goes back and on by itself
    case StepKind::assign: {
      int64_t value = 0;
      if (!value_of(step.parallel, &value)) return false;
      symbols_[step.symbol] = value;
      bound_[step.symbol] = 1;
      return true;
    }
  }
  return internal("a step of unknown kind");
}

template <class Device>
bool ExecutorOn<Device>::bytes_of(int32_t buffer, int64_t* bytes) {
  if (!value_of(program_->buffers[buffer].bytes, bytes)) return false;
  if (*bytes < 0 || *bytes > most_bytes)
    return failure_.set(Status::invalid_argument, "the data asks for a value of %lld bytes", static_cast<long long>(*bytes));
  return true;
}

// The memory of an operand: grown first where its size is only known now. What it held stays.
template <class Device>
bool ExecutorOn<Device>::ready(int32_t operand, void** data) {
  const int32_t owner = root(operand);
  if (program_->buffers[owner].late) {
    int64_t bytes = 0;
    if (!bytes_of(owner, &bytes)) return false;
    if (!reserve(owner, bytes, capacity_[owner])) return false;
  }
  *data = data_[owner];
  return true;
}

template <class Device>
bool ExecutorOn<Device>::launch(const Step& step) {
  const LaunchNumbers* const numbers = numbers_of(step);
  if (numbers == nullptr) return false;
  for (int32_t k = step.first; k < step.first + step.count; ++k) {
    const int32_t operand = program_->operands[k];
    if (operand >= 0 && program_->buffers[root(operand)].late && !ready(operand, &operand_data_[k])) return false;
  }
  const int64_t iterations = numbers->iterations, scratch_bytes = numbers->scratch_bytes;
  if (iterations <= 0) return true;
  const int64_t parts = Here::scratch_parts(*device_, iterations);
  int64_t all = 0;
  if (__builtin_mul_overflow(scratch_bytes, parts, &all)) return no_memory(scratch_bytes, "scratch memory");
  if (all > working_->scratch.capacity() && !working_->scratch.reserve(program_->state_count > 0 ? all + all / 2 : all))
    return no_memory(all, "scratch memory");
  if constexpr (Here::records)
    if (recording_ && !take_lane(step, all)) return false;
  LaunchRequest request{program_->kernels[step.kernel],
                        &operand_data_[step.first],
                        symbols_.data(),
                        iterations,
                        numbers->cost,
                        static_cast<char*>(working_->scratch.data()),
                        scratch_bytes};
  return Here::launch(*device_, request, failure_);
}

// An integer element of a buffer.
inline bool read_integer(ScalarType type, const void* data, int64_t element, int64_t* value) {
  return with_element(type, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<ValueOf<T>>)
      *value = static_cast<int64_t>(value_of(static_cast<const T*>(data)[element]));
    return std::is_integral_v<ValueOf<T>>;
  });
}

// An integer or boolean that decides what happens next.
template <class Device>
bool ExecutorOn<Device>::read_value(int32_t buffer, int64_t element, int64_t* value, const char* what) {
  const ScalarType type = program_->buffers[buffer].dtype;
  const void* data = data_[root(buffer)];
  if constexpr (Here::separate) {
    char bytes[8] = {};
    const int64_t size = size_of(type);
    if (!Here::to_host(*device_, bytes, static_cast<const char*>(data) + element * size, size, failure_)) return false;
    alignas(8) char aligned[8];
    std::memcpy(aligned, bytes, sizeof aligned);
    return read_integer(type, aligned, 0, value) || internal(what);
  }
  return read_integer(type, data, element, value) || internal(what);
}

template <class Device>
bool ExecutorOn<Device>::bind(const Step& step) {
  int64_t value = 0;
  if (!read_value(program_->operands[step.first], step.element, &value, "a symbol read from a value that is no integer"))
    return false;
  return bind_symbol(step.symbol, value, {"a value computed by the model"});
}

template <class Device>
bool ExecutorOn<Device>::check(const Step& step) {
  int64_t holds = 0;
  if (!value_of(step.parallel, &holds)) return false;
  if (holds != 0) return true;
  failure_.set(Status::requirement, "%s", program_->messages[step.element]);
  // The values that decided it.
  const char* separator = " (";
  Array<char> told;
  if (!told.allocate(program_->symbol_count)) return false;
  for (int32_t k = 0; k < step.parallel.length; ++k) {
    const Instruction& instruction = program_->code[step.parallel.value + k];
    if (instruction.code != Code::symbol || told[instruction.value]) continue;
    told[instruction.value] = 1;
    failure_.append("%s\"%s\" is %lld", separator, program_->symbols[instruction.value].name,
                    static_cast<long long>(symbols_[instruction.value]));
    separator = ", ";
  }
  if (separator[0] == ',') failure_.append(")");
  return false;
}

template <class Device>
bool ExecutorOn<Device>::branch(const Step& step) {
  int64_t taken = 0;
  if (!read_value(program_->operands[step.first], 0, &taken, "a condition")) return false;
  return taken != 0 ? run_steps(step.then_begin, step.then_end) : run_steps(step.else_begin, step.else_end);
}

template <class Device>
bool ExecutorOn<Device>::copy(int32_t from, int32_t to) {
  int64_t bytes = 0;
  void* target = nullptr;
  if (!bytes_of(to, &bytes) || !ready(to, &target)) return false;
  const void* source = data_[root(from)];
  return source == nullptr || source == target || bytes == 0 || Here::copy(*device_, target, source, bytes, failure_);
}

// ---- loops ----
// Moves the carried values: `to` has the dims that count by now. Values that trade places go through a staging block.
template <class Device>
bool ExecutorOn<Device>::carry(const Step& step, const int32_t* from, const int32_t* to) {
  bool trading = false;
  int64_t staged = 0;
  for (int32_t i = 0; i < step.carried; ++i) {
    int64_t bytes = 0;
    if (!bytes_of(to[i], &bytes)) return false;
    staged += align_up(bytes);
    for (int32_t j = 0; j < step.carried; ++j) trading |= i != j && root(from[i]) == root(to[j]);
  }
  if (trading && !staging_.reserve(staged)) return no_memory(staged, "loop-carried values");
  for (int32_t pass = 0; pass < (trading ? 2 : 1); ++pass) {
    char* stage = static_cast<char*>(staging_.data());
    for (int32_t i = 0; i < step.carried; ++i) {
      int64_t bytes = 0;
      if (!bytes_of(to[i], &bytes)) return false;
      const void* source = data_[root(from[i])];
      if (trading && pass == 0) {
        if (bytes > 0 && !Here::copy(*device_, stage, source, bytes, failure_)) return false;
      } else {
        void* target = nullptr;
        if (!ready(to[i], &target)) return false;
        if (root(from[i]) == root(to[i])) source = target;
        if (trading) source = stage;
        if (bytes > 0 && source != target && !Here::copy(*device_, target, source, bytes, failure_)) return false;
      }
      if (trading) stage += align_up(bytes);
    }
  }
  return true;
}

// Appends an iteration's value to a stacked output, which grows in doubling steps where the trip count is not known.
template <class Device>
bool ExecutorOn<Device>::append(int32_t value, int32_t stacked, int64_t iteration, int64_t* used) {
  // By the dims of a row: those of the value may have become the next iteration's.
  const Buffer& rows = program_->buffers[stacked];
  int64_t bytes = size_of(rows.dtype), after = 0;
  for (int32_t axis = 1; axis < rows.rank; ++axis) {
    int64_t dim = 0;
    if (!value_of(program_->extents[rows.first_dim + axis], &dim)) return false;
    if (__builtin_mul_overflow(bytes, dim, &bytes)) return no_memory(dim, "a loop's output");
  }
  if (__builtin_add_overflow(*used, bytes, &after) || after > most_bytes) return no_memory(after, "a loop's output");
  const int32_t owner = root(stacked);
  if (program_->buffers[owner].late && (data_[owner] == nullptr || after > capacity_[owner])) {
    const bool callers = program_->buffers[owner].kind == BufferKind::output && in_place_[program_->buffers[owner].index];
    const int64_t room = callers || iteration == 0 ? after : after * 2;
    if (!reserve(owner, room, *used)) return false;
  }
  if (bytes > 0 && !Here::copy(*device_, static_cast<char*>(data_[owner]) + *used, data_[root(value)], bytes, failure_))
    return false;
  *used = after;
  return true;
}

template <class Device>
bool ExecutorOn<Device>::loop(const Step& step) {
  const int32_t n = step.carried, k = step.stacked;
  const int32_t* operands = program_->operands + step.first;
  const int32_t* initial = operands + 2;
  const int32_t *param = initial + n, *next = param + n, *final = next + n;
  const int32_t next_condition = final[n];
  const int32_t *values = final + n + 1, *stacked = values + k;

  int64_t trips = INT64_MAX;
  int64_t more = 1;
  if (operands[0] >= 0 && !read_value(operands[0], 0, &trips, "a loop's trip count")) return false;
  if (operands[1] >= 0 && !read_value(operands[1], 0, &more, "a loop's condition")) return false;
  int64_t* const used = &appended_[step.first];
  for (int32_t i = 0; i < k; ++i) used[i] = 0;
  if (!carry(step, initial, param)) return false;
  int64_t iteration = 0;
  for (; more != 0 && iteration < trips; ++iteration) {
    symbols_[step.symbol] = iteration;
    bound_[step.symbol] = 1;
    if (!run_steps(step.then_begin, step.then_end)) return false;
    for (int32_t i = 0; i < k; ++i)
      if (!append(values[i], stacked[i], iteration, &used[i])) return false;
    if (next_condition >= 0 && !read_value(next_condition, 0, &more, "a loop's condition")) return false;
    if (!carry(step, next, param)) return false;
  }
  if (step.else_begin >= 0 && !bind_symbol(step.else_begin, iteration, {"a loop"})) return false;
  for (int32_t i = 0; i < k; ++i) {  // a loop without iterations leaves empty outputs, which still need an address
    void* data = nullptr;
    if (program_->buffers[root(stacked[i])].late && data_[root(stacked[i])] == nullptr && !ready(stacked[i], &data))
      return false;
  }
  return carry(step, param, final);
}

// Outputs that are no buffer of their own (an input or a weight passed through) are copied to where the caller wants them;
// on a GPU so are those that go to the host: the caller's memory there, or the context's.
template <class Device>
bool ExecutorOn<Device>::deliver(const OutputView* outputs) {
  bool wait = !detached_;
  for (int32_t i = 0; i < program_->output_count; ++i) {
    const int32_t owner = root(program_->outputs[i].buffer);
    const Buffer& b = program_->buffers[owner];
    const bool given = outputs != nullptr && outputs[i].data != nullptr;
    result_data_[i] = data_[owner];
    if (outputs != nullptr && (outputs[i].unwanted || (Here::separate && outputs[i].stays && !given))) continue;
    if (given ? in_place_[i] && b.kind == BufferKind::output && b.index == i : !Here::separate || detached_) continue;
    const int64_t bytes = output_bytes(i);
    if (bytes < 0) return internal("the size of an output");
    if (given && bytes > outputs[i].bytes)
      return failure_.set(Status::invalid_argument, "output \"%s\" needs %lld bytes, the memory given has %lld",
                          output_name(*program_, i), static_cast<long long>(bytes),
                          static_cast<long long>(outputs[i].bytes));
    if constexpr (Here::separate) {
      if (!given && !host_results_[i].reserve(bytes)) return no_memory(bytes, "an output");
      result_data_[i] = given ? outputs[i].data : host_results_[i].data();
      if (bytes > 0 && !Here::hand_out(*device_, result_data_[i], data_[owner], bytes, failure_)) return false;
      wait |= !in_place_[i];
    } else {
      if (bytes > 0) std::memcpy(outputs[i].data, data_[owner], static_cast<size_t>(bytes));
      result_data_[i] = outputs[i].data;
    }
  }
  return wait ? Here::wait(*device_, failure_) : Here::leave(*device_, failure_);
}

}  // namespace METAC_RUNTIME_NAMESPACE
