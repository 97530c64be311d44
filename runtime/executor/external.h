// Executor, the steps that routines of the runtime do. They run on the host: on a GPU their operands are copied.
#pragma once
#include "executor.h"

namespace METAC_RUNTIME_NAMESPACE {

// What the arguments of any routine take, so that calls find it.
template <class Device>
bool ExecutorOn<Device>::take_routine_arguments() {
  const Program& p = *program_;
  int64_t tensors = 0, numbers = 0;
  for (int32_t i = 0; i < p.step_count; ++i) {
    const Step& step = p.steps[i];
    if (step.kind != StepKind::external) continue;
    int64_t own = step.symbol_count;
    for (int32_t k = step.first; k < step.first + step.count; ++k)
      own += p.operands[k] < 0 ? 0 : p.buffers[p.operands[k]].rank;
    if (step.count > tensors) tensors = step.count;
    if (own > numbers) numbers = own;
  }
  return routine_tensors_.allocate(tensors) && routine_numbers_.allocate(numbers);
}

// A tensor whose data is on the device gets memory on the host, with the same values if they are read.
template <class Device>
bool ExecutorOn<Device>::host_copy(int32_t operand, RoutineTensor* tensor, bool read) {
  if constexpr (Here::separate) {
    const int64_t bytes = tensor->count * size_of(tensor->dtype);
    Block& block = host_operands_[operand];
    if (!block.reserve(bytes)) return no_memory(bytes, "a routine's arguments");
    if (read && bytes > 0 && !Here::to_host(*device_, block.data(), tensor->data, bytes, failure_)) return false;
    tensor->data = block.data();
  }
  (void)operand, (void)tensor, (void)read;
  return true;
}

template <class Device>
bool ExecutorOn<Device>::keep_outputs(const RoutineCall& call) {
  if constexpr (Here::separate) {
    for (int32_t k = 0; k < call.output_count; ++k) {
      const int32_t operand = program_->operands[external_step_->first + external_step_->inputs + k];
      const int64_t bytes = operand < 0 ? 0 : call.outputs[k].count * size_of(call.outputs[k].dtype);
      if (bytes > 0 && !Here::to_device(*device_, data_[root(operand)], call.outputs[k].data, bytes, failure_)) return false;
    }
  }
  (void)call;
  return true;
}

template <class Device>
bool ExecutorOn<Device>::fill_tensor(int32_t buffer, RoutineTensor* tensor, int64_t* dims) {
  const Buffer& b = program_->buffers[buffer];
  tensor->dtype = b.dtype;
  tensor->rank = b.rank;
  tensor->dims = dims;
  tensor->count = 1;
  for (int32_t axis = 0; axis < b.rank; ++axis) {
    if (!value_of(program_->extents[b.first_dim + axis], &dims[axis])) return false;
    if (__builtin_mul_overflow(tensor->count, dims[axis], &tensor->count)) return internal("a dim of an external step");
  }
  return true;
}

template <class Device>
bool ExecutorOn<Device>::prepare_outputs(RoutineCall& call) {
  ExecutorOn& self = *static_cast<ExecutorOn*>(call.executor);
  const Program& p = *self.program_;
  const Step& step = *self.external_step_;
  for (int32_t k = 0; k < call.symbol_count; ++k)
    if (!self.bind_symbol(p.symbol_ids[step.symbol + k], call.symbols[k], {p.routines[step.kernel]})) return false;
  int64_t* dims = self.external_dims_;
  for (int32_t k = 0; k < call.output_count; ++k) {
    const int32_t operand = p.operands[step.first + step.inputs + k];
    RoutineTensor& tensor = call.outputs[k];
    tensor.data = nullptr;
    if (operand < 0) continue;
    if (!self.fill_tensor(operand, &tensor, dims) || !self.ready(operand, &tensor.data)) return false;
    if (Here::separate && !self.host_copy(step.first + step.inputs + k, &tensor, false)) return false;
    dims += tensor.rank;
  }
  return true;
}

template <class Device>
bool ExecutorOn<Device>::external(const Step& step) {
  const Program& p = *program_;
  RoutineTensor* const tensors = routine_tensors_.data();
  int64_t* const symbols = routine_numbers_.data();
  int64_t* next_dims = symbols + step.symbol_count;
  for (int32_t k = 0; k < step.symbol_count; ++k) symbols[k] = 0;
  for (int32_t k = 0; k < step.count; ++k) tensors[k] = RoutineTensor{};
  for (int32_t k = 0; k < step.inputs; ++k) {
    const int32_t operand = p.operands[step.first + k];
    if (operand < 0) continue;
    if (!fill_tensor(operand, &tensors[k], next_dims)) return false;
    tensors[k].data = data_[root(operand)];
    if (Here::separate && !host_copy(step.first + k, &tensors[k], true)) return false;
    next_dims += tensors[k].rank;
  }
  RoutineCall call{};
  call.draws = &draws_;
  call.memory = &routine_memory_;
  call.inputs = tensors;
  call.input_count = step.inputs;
  call.outputs = tensors + step.inputs;
  call.output_count = step.count - step.inputs;
  if (step.element >= 0 && step.element < p.attributes_count) call.attributes = p.attributes[step.element];
  call.symbols = symbols;
  call.symbol_count = step.symbol_count;
  call.failure = &failure_;
  call.executor = this;
  call.prepare = &ExecutorOn::prepare_outputs;
  external_step_ = &step;
  external_dims_ = next_dims;
  if (routines_[step.kernel](call)) return !Here::separate || keep_outputs(call);
  return failure_.ok() ? failure_.set(Status::unsupported, "routine \"%s\" failed", p.routines[step.kernel]) : false;
}

}  // namespace METAC_RUNTIME_NAMESPACE
