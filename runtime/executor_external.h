// Executor, the steps that routines of the runtime do. They run on the host: on a GPU their operands are copied.
#pragma once
#include "executor.h"

namespace METAC_RUNTIME_NAMESPACE {

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
    if (!self.bind_symbol(p.symbol_ids[step.symbol + k], call.symbols[k], p.routines[step.kernel])) return false;
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
  int64_t all_dims = 0;
  for (int32_t k = 0; k < step.count; ++k)
    if (p.operands[step.first + k] >= 0) all_dims += p.buffers[p.operands[step.first + k]].rank;
  Array<RoutineTensor> tensors;
  Array<int64_t> dims, symbols;
  if (!tensors.allocate(step.count) || !dims.allocate(all_dims) || !symbols.allocate(step.symbol_count)) return no_memory(all_dims * 8, "a routine's arguments");
  int64_t* next_dims = dims.data();
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
  call.inputs = tensors.data();
  call.input_count = step.inputs;
  call.outputs = tensors.data() + step.inputs;
  call.output_count = step.count - step.inputs;
  if (step.element >= 0 && step.element < p.attributes_count) call.attributes = p.attributes[step.element];
  call.symbols = symbols.data();
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
