// Executor, first half: from the caller's shapes to symbols, checks and places in memory.
#pragma once
#include "executor.h"

namespace METAC_RUNTIME_NAMESPACE {

template <class Device>
Status ExecutorOn<Device>::create(const Program& program, const void* weights, Device* device, const RoutineEntry* routines,
                                  int32_t routine_count) {
  program_ = &program;
  weights_ = weights;
  device_ = device;
  failure_.clear();
  const bool memory =
      symbols_.allocate(program.symbol_count) && planned_for_.allocate(program.symbol_count) &&
      bound_.allocate(program.symbol_count) && roots_.allocate(program.buffer_count) &&
      data_.allocate(program.buffer_count) && capacity_.allocate(program.buffer_count) &&
      operand_data_.allocate(program.operand_count) && owned_.allocate(program.buffer_count) &&
      placements_.allocate(program.buffer_count) && order_.allocate(2 * int64_t{program.buffer_count}) &&
      result_data_.allocate(program.output_count) && in_place_.allocate(program.output_count) &&
      routines_.allocate(program.routine_count) && appended_.allocate(program.operand_count) && take_routine_arguments() &&
      (!Here::separate || (host_results_.allocate(program.output_count) && host_operands_.allocate(program.operand_count)));
  if (!memory) return no_memory(0, "bookkeeping"), failure_.status;
  for (int32_t i = 0; i < program.buffer_count; ++i) {
    int32_t at = i;
    for (int32_t hops = 0; program.buffers[at].kind == BufferKind::view; at = program.buffers[at].index)
      if (++hops > program.buffer_count) return internal("a view of itself"), failure_.status;
    roots_[i] = at;
  }
  for (int32_t i = 0; i < program.routine_count; ++i) {
    for (int32_t k = 0; k < routine_count; ++k)
      if (std::strcmp(routines[k].name, program.routines[i]) == 0) routines_[i] = routines[k].function;
    if (routines_[i] == nullptr) {
      failure_.set(Status::unsupported, "this build has no routine \"%s\"", program.routines[i]);
      return failure_.status;
    }
  }
  if (!find_repeatable() || !find_chains() || !find_known_launches()) return no_memory(0, "bookkeeping"), failure_.status;
  if constexpr (Here::caches)
    if (!find_last_steps()) return no_memory(0, "bookkeeping"), failure_.status;
  return Status::ok;
}

template <class Device>
void ExecutorOn<Device>::take_memory_from(const Allocator* allocator) {
  routine_memory_.take_from(allocator);
  for (int64_t k = 0; k < host_operands_.size(); ++k) host_operands_[k].take_from(allocator);
  if constexpr (!Here::separate) {
    for (Memory* memory : {&own_.arena, &own_.scratch, &own_.slices, &staging_}) memory->take_from(allocator);
    for (int32_t i = 0; i < program_->buffer_count; ++i) owned_[i].take_from(allocator);
  }
}

// How far a walk over steps counts (Buffer::first_step), those of branches and loops included.
template <class Device>
int32_t ExecutorOn<Device>::times_of(int32_t begin, int32_t end) const {
  int32_t time = 0;
  for (int32_t i = begin; i < end; ++i) {
    const Step& s = program_->steps[i];
    ++time;
    if (s.kind != StepKind::branch && s.kind != StepKind::loop) continue;
    time += times_of(s.then_begin, s.then_end) + 1;
    if (s.kind == StepKind::branch) time += times_of(s.else_begin, s.else_end);
  }
  return time;
}

// The values whose memory is given back while running, and behind which step of the top level.
template <class Device>
bool ExecutorOn<Device>::find_last_steps() {
  const Program& p = *program_;
  if (!last_steps_.allocate(p.buffer_count)) return false;
  const auto handed_out = [&](int32_t buffer) {
    for (int32_t i = 0; i < p.output_count; ++i)
      if (root(p.outputs[i].buffer) == buffer) return true;
    return false;
  };
  int32_t time = 0;
  for (int32_t i = 0; i < p.top_level_steps; ++i) {
    const int32_t begin = time;
    time += times_of(i, i + 1);
    for (int32_t b = 0; b < p.buffer_count; ++b)
      if (p.buffers[b].late && p.buffers[b].kind == BufferKind::arena && p.buffers[b].last_step >= begin &&
          p.buffers[b].last_step < time && !handed_out(b))
        last_steps_[passing_count_++] = {b, i};
  }
  return true;
}

// Before a step of the top level: what no step from it on reads is given back.
template <class Device>
void ExecutorOn<Device>::give_back(int32_t step) {
  for (int32_t k = 0; k < passing_count_ && last_steps_[k].step < step; ++k) {
    const int32_t buffer = last_steps_[k].buffer;
    if (data_[buffer] == nullptr) continue;
    owned_bytes_ -= owned_[buffer].capacity();
    Here::give_back(*device_, owned_[buffer]);
    data_[buffer] = nullptr;
    capacity_[buffer] = 0;
  }
}

// A value for a symbol: within its range, a multiple of its divisor, and the same as before where it was bound already.
template <class Device>
bool ExecutorOn<Device>::bind_symbol(int32_t symbol, int64_t value, Origin from) {
  const SymbolInfo& info = program_->symbols[symbol];
  const long long v = value, low = info.min, high = info.max, divisor = info.divisor;
  if (value < info.min || value > info.max)
    return failure_.set(Status::invalid_argument, "%s: \"%s\" is %lld, expected %lld to %lld", from.text().chars, info.name,
                        v, low, high);
  if (info.divisor > 1 && value % info.divisor != 0)
    return failure_.set(Status::invalid_argument, "%s: \"%s\" is %lld, expected a multiple of %lld", from.text().chars,
                        info.name, v, divisor);
  symbols_[symbol] = value;
  bound_[symbol] = 1;
  return true;
}

template <class Device>
bool ExecutorOn<Device>::bind_inputs(const InputView* inputs, int32_t count) {
  const Program& p = *program_;
  if (count != p.input_count)
    return failure_.set(Status::invalid_argument, "%d inputs given, the model has %d", count, p.input_count);
  for (int32_t i = 0; i < count; ++i) {
    const Buffer& buffer = p.buffers[p.inputs[i].buffer];
    if (inputs[i].rank != buffer.rank)
      return failure_.set(Status::invalid_argument, "input \"%s\": %d dims given, expected %d", input_name(p, i),
                          inputs[i].rank, buffer.rank);
    for (int32_t axis = 0; axis < buffer.rank; ++axis)
      if (inputs[i].dims[axis] < 0)
        return failure_.set(Status::invalid_argument, "input \"%s\": dim %d is %lld", input_name(p, i), axis,
                            static_cast<long long>(inputs[i].dims[axis]));
  }
  std::memset(bound_.data(), 0, static_cast<size_t>(p.symbol_count));
  for (int32_t k = 0; k < p.source_count; ++k) {
    const SymbolSource& source = p.sources[k];
    const int64_t value = inputs[source.input].dims[source.axis];
    const Origin from{input_name(p, source.input), source.axis};
    if (!bound_[source.symbol]) {
      if (!bind_symbol(source.symbol, value, from)) return false;
    } else if (symbols_[source.symbol] != value) {
      return failure_.set(Status::invalid_argument, "%s is %lld, but \"%s\" is %lld by an earlier input", from.text().chars,
                          static_cast<long long>(value), p.symbols[source.symbol].name,
                          static_cast<long long>(symbols_[source.symbol]));
    }
  }
  for (int32_t k = 0; k < p.state_count; ++k) {
    const StateInfo& state = p.states[k];
    if (state.capacity < 0) continue;
    const InputView& view = inputs[state.input];
    const int64_t length = view.dims[state.axis], capacity = view.capacity > length ? view.capacity : length;
    if (bound_[state.capacity] && symbols_[state.capacity] != capacity) return internal("the storage of states");
    if (!bind_symbol(state.capacity, capacity, {"the storage of a state"})) return false;
  }
  return check_dims(inputs);
}

template <class Device>
bool ExecutorOn<Device>::check_dims(const InputView* inputs) {
  const Program& p = *program_;
  for (int32_t i = 0; i < p.input_count; ++i) {
    const Buffer& buffer = p.buffers[p.inputs[i].buffer];
    for (int32_t axis = 0; axis < buffer.rank; ++axis) {
      int64_t expected = 0;
      if (!value_of(p.extents[buffer.first_dim + axis], &expected)) return false;
      if (inputs[i].dims[axis] != expected)
        return failure_.set(Status::invalid_argument, "input \"%s\": dim %d is %lld, expected %lld", input_name(p, i), axis,
                            static_cast<long long>(inputs[i].dims[axis]), static_cast<long long>(expected));
    }
  }
  return true;
}

template <class Device>
Status ExecutorOn<Device>::bind_shapes(const InputView* inputs, int32_t count) {
  failure_.clear();
  bind_inputs(inputs, count);
  return failure_.status;
}

// Memory for `bytes` behind a buffer that owns its memory: the caller's where it is an output with enough room, else ours.
template <class Device>
bool ExecutorOn<Device>::reserve(int32_t buffer, int64_t bytes, int64_t keep) {
  const Buffer& b = program_->buffers[buffer];
  if (data_[buffer] != nullptr && bytes <= capacity_[buffer]) return true;
  if (b.kind == BufferKind::output && in_place_[b.index]) {
    const OutputView& given = outputs_[b.index];
    if (bytes > given.bytes)
      return failure_.set(Status::invalid_argument, "output \"%s\" needs %lld bytes, the memory given has %lld",
                          output_name(*program_, b.index), static_cast<long long>(bytes),
                          static_cast<long long>(given.bytes));
    data_[buffer] = given.data;
    capacity_[buffer] = given.bytes;
    return true;
  }
  const int64_t before = owned_[buffer].capacity();
  int64_t size = 0;  // kernels may read one vector beyond the last element
  if (bytes < 0 || __builtin_add_overflow(bytes, alignment, &size) ||
      !(b.late ? Here::reserve(*device_, owned_[buffer], size, keep) : owned_[buffer].reserve(size, keep)))
    return no_memory(bytes, b.kind == BufferKind::output ? "an output" : "a value whose size the data decides");
  owned_bytes_ += owned_[buffer].capacity() - before;
  data_[buffer] = owned_[buffer].data();
  capacity_[buffer] = owned_[buffer].capacity() - alignment;
  return true;
}

// Offsets for what the compiler could not place. An earlier run's do where no value is larger than it was then.
template <class Device>
bool ExecutorOn<Device>::plan_arena() {
  const Program& p = *program_;
  bool same = planned_;
  for (int32_t k = 0; same && k < p.source_count; ++k)
    same = planned_for_[p.sources[k].symbol] == symbols_[p.sources[k].symbol];
  if (same) return place_in_arena();
  const bool again = planned_;
  planned_ = false;
  ++shape_;
  const auto is_placed_here = [](const Buffer& b) { return b.kind == BufferKind::arena && !b.late && b.offset < 0; };
  const auto bytes_of_value = [&](const Buffer& b, int64_t* bytes) {
    if (!value_of(b.bytes, bytes)) return false;
    if (*bytes < 0 || *bytes > most_bytes)
      return failure_.set(Status::invalid_argument, "the input shapes ask for a value of %lld bytes",
                          static_cast<long long>(*bytes));
    if (*bytes > 0) *bytes += alignment;
    return true;
  };
  bool fits = again;
  int64_t bytes = 0;
  for (int32_t i = 0, k = 0; fits && i < p.buffer_count; ++i) {
    if (!is_placed_here(p.buffers[i])) continue;
    if (!bytes_of_value(p.buffers[i], &bytes)) return false;
    fits = bytes <= placements_[k++].bytes;
  }
  if (!fits) {
    placed_in_ = nullptr;
    int32_t count = 0;
    for (int32_t i = 0; i < p.buffer_count; ++i) {
      const Buffer& b = p.buffers[i];
      if (!is_placed_here(b)) continue;
      if (!bytes_of_value(b, &bytes)) return false;
      // Where sizes grow from run to run, a little more than they are spares the next runs a plan.
      placements_[count++] = {bytes + (again ? bytes / 16 : 0), b.first_step, b.last_step, 0};
    }
    planned_bytes_ =
        align_up(p.arena_bytes) + plan_memory(placements_.data(), count, order_.data(), order_.data() + p.buffer_count);
  }
  for (int32_t k = 0; k < p.source_count; ++k) planned_for_[p.sources[k].symbol] = symbols_[p.sources[k].symbol];
  planned_ = true;
  return place_in_arena();
}

// The memory may be another since the last run: who shares it has made it larger.
template <class Device>
bool ExecutorOn<Device>::place_in_arena() {
  const Program& p = *program_;
  auto& memory = working_->arena;
  // Where a state grows, so may every run's working memory: not a little each time.
  const bool growing = p.state_count > 0 && memory.capacity() < planned_bytes_ + alignment;
  if (!memory.reserve(planned_bytes_ + alignment + (growing ? planned_bytes_ / 2 : 0)))
    return no_memory(planned_bytes_, "working memory");
  if (placed_in_ == memory.data()) return true;
  char* arena = static_cast<char*>(memory.data());
  const int64_t base = align_up(p.arena_bytes);
  int32_t count = 0;
  for (int32_t i = 0; i < p.buffer_count; ++i) {
    const Buffer& b = p.buffers[i];
    if (b.kind != BufferKind::arena || b.late) continue;
    data_[i] = arena + (b.offset >= 0 ? b.offset : base + placements_[count++].offset);
    capacity_[i] = INT64_MAX;
  }
  placed_in_ = memory.data();
  return true;
}

template <class Device>
bool ExecutorOn<Device>::place_outputs(const OutputView* outputs) {
  const Program& p = *program_;
  outputs_ = outputs;
  wanted_ = all_outputs;
  for (int32_t i = 0; i < p.output_count; ++i) {
    const bool given = outputs != nullptr && outputs[i].data != nullptr;
    in_place_[i] = given && (outputs[i].stays || Here::in_place(outputs[i].data));
    if (outputs != nullptr && outputs[i].unwanted) wanted_ &= static_cast<uint8_t>(~set_of_output(i) | always_needed);
  }
  for (int32_t i = 0; i < p.buffer_count; ++i) {
    const Buffer& b = p.buffers[i];
    if (b.kind == BufferKind::output) {
      data_[i] = nullptr;  // the caller may give other memory than last time
      capacity_[i] = 0;
      int64_t bytes = 0;
      if (b.late) continue;
      if (!value_of(b.bytes, &bytes) || !reserve(i, bytes, 0)) return false;
    }
  }
  return true;
}

template <class Device>
bool ExecutorOn<Device>::place_buffers() {
  const Program& p = *program_;
  if (!plan_arena()) return false;
  for (int32_t i = 0; i < p.buffer_count; ++i)
    if (p.buffers[i].kind == BufferKind::weight)
      data_[i] = const_cast<char*>(static_cast<const char*>(weights_)) + p.buffers[i].offset;
  for (int32_t k = 0; k < p.operand_count; ++k) {
    const int32_t operand = p.operands[k];
    operand_data_[k] = operand < 0 ? nullptr : data_[root(operand)];
  }
  if constexpr (Here::separate)
    if (p.load_count > 0) return place_window();
  return true;
}

template <class Device>
int64_t ExecutorOn<Device>::output_dim(int32_t i, int32_t axis) const {
  const Buffer& b = program_->buffers[program_->outputs[i].buffer];
  const Extent& extent = program_->extents[b.first_dim + axis];
  for (int32_t k = 0; k < extent.length; ++k) {
    const Instruction& instruction = program_->code[extent.value + k];
    if (instruction.code == Code::symbol && !bound_[instruction.value]) return -1;
  }
  int64_t value = 0;
  return evaluate(*program_, extent, symbols_.data(), &value) ? value : -1;
}

template <class Device>
int64_t ExecutorOn<Device>::output_bytes(int32_t i) const {
  const Buffer& b = program_->buffers[program_->outputs[i].buffer];
  int64_t bytes = size_of(b.dtype);
  for (int32_t axis = 0; axis < b.rank; ++axis) {
    const int64_t dim = output_dim(i, axis);
    if (dim < 0) return -1;
    if (__builtin_mul_overflow(bytes, dim, &bytes)) return -1;
  }
  return bytes;
}

}  // namespace METAC_RUNTIME_NAMESPACE
