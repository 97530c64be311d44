// States in a GPU's memory: what is asked for goes to the context's stream, behind its runs and before the next one.
#pragma once
#include "../executor/state_place.h"
#include "place.h"

namespace METAC_RUNTIME_NAMESPACE {

inline Allocator allocator_of(CudaDevice& device) {
  const auto allocate = [](void* user, size_t bytes, size_t) -> void* {
    Failure unused;
    void* data = nullptr;
    if (!static_cast<CudaDevice*>(user)->enter(unused)) return nullptr;
    if (OnDevice::take(&data, bytes) == cudaSuccess) return data;
    cudaGetLastError();  // it is told by the result
    return nullptr;
  };
  return {allocate, [](void*, void* memory, size_t) { OnDevice::give(memory); }, &device};
}

constexpr int64_t most_pitch = int64_t{1} << 30;  // of copies in two dims; cards take twice that

inline cudaError_t copy_pieces(char* to, int64_t to_step, const char* from, StatePlace::Pieces p, cudaStream_t stream) {
  const auto size = [](int64_t bytes) { return static_cast<size_t>(bytes); };
  if (p.count == 1 || (p.bytes == to_step && p.bytes == p.step))
    return cudaMemcpyAsync(to, from, size(p.bytes * p.count), cudaMemcpyDefault, stream);
  if (p.step <= most_pitch && to_step <= most_pitch)
    return cudaMemcpy2DAsync(to, size(to_step), from, size(p.step), size(p.bytes), size(p.count), cudaMemcpyDefault, stream);
  cudaError_t status = cudaSuccess;
  for (int64_t i = 0; i < p.count && status == cudaSuccess; ++i)
    status = cudaMemcpyAsync(to + i * to_step, from + i * p.step, size(p.bytes), cudaMemcpyDefault, stream);
  return status;
}

inline bool move_on_device(void* user, void* to, int64_t to_step, const void* from, StatePlace::Pieces pieces,
                           Failure& failure) {
  CudaDevice& device = *static_cast<CudaDevice*>(user);
  if (!device.begin(failure)) return false;
  return move_apart(allocator_of(device), to, to_step, from, pieces, failure,
                    [&](void* target, int64_t target_step, const void* source, StatePlace::Pieces p) {
                      const cudaError_t status = copy_pieces(static_cast<char*>(target), target_step,
                                                             static_cast<const char*>(source), p, device.stream());
                      return status == cudaSuccess || cuda_failed(failure, "moving a state", status);
                    });
}

inline bool clear_on_device(void* user, void* data, StatePlace::Pieces pieces, Failure& failure) {
  CudaDevice& device = *static_cast<CudaDevice*>(user);
  if (!device.begin(failure)) return false;
  cudaError_t status = cudaSuccess;
  const auto size = [](int64_t bytes) { return static_cast<size_t>(bytes); };
  if (pieces.count == 1 || pieces.bytes == pieces.step)
    status = cudaMemsetAsync(data, 0, size(pieces.count * pieces.bytes), device.stream());
  else if (pieces.step <= most_pitch)
    status = cudaMemset2DAsync(data, size(pieces.step), 0, size(pieces.bytes), size(pieces.count), device.stream());
  else
    for (int64_t i = 0; i < pieces.count && status == cudaSuccess; ++i)
      status = cudaMemsetAsync(static_cast<char*>(data) + i * pieces.step, 0, size(pieces.bytes), device.stream());
  return status == cudaSuccess || cuda_failed(failure, "clearing a state", status);
}

inline StatePlace states_on_device(CudaDevice& device, const Allocator* allocator) {
  const auto wait = [](void* user, Failure& failure) {
    CudaDevice& waited = *static_cast<CudaDevice*>(user);
    return waited.begin(failure) && Place<CudaDevice>::wait(waited, failure);
  };
  return {allocator, &device, move_on_device, clear_on_device, wait};
}

}  // namespace METAC_RUNTIME_NAMESPACE
