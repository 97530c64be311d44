// What a generated library runs on: a GPU. The host's threads only prepare weights (set_weights).
#pragma once
#include "../executor/executor.h"
#include "../process/fork_mark.h"
#include "dlpack.h"
#include "place.h"
#include "state_place.h"

namespace METAC_RUNTIME_NAMESPACE {

class Target {
 public:
  using Device = CudaDevice;

  bool open(Failure& failure) {
    fork_.set();
    return device_.open(failure);
  }
  // Is this a child of fork()? CUDA stays in the parent.
  bool left_behind() const { return fork_.in_child(); }
  Device* device(ThreadPool&) { return &device_; }
  int number() const { return device_.number(); }
  // Of the runs from now on; null: the context's own.
  void use_stream(void* stream) { device_.use_stream(static_cast<cudaStream_t>(stream)); }
  bool call_when_done(void (*done)(void*), void* user, Failure& failure) {
    return device_.call_when_done(done, user, failure);
  }
  static int32_t threads(int32_t asked) { return asked > 0 ? asked : 1; }
  static constexpr bool copies_weights = true;
  // swapped: the host keeps them, and runs copy in what they read.
  const void* hold(const void* weights, int64_t bytes, bool swapped, Failure& failure) {
    return swapped ? device_.keep_on_host(weights, bytes, failure) : device_.hold(weights, bytes, failure);
  }
  // On the device.
  StatePlace place_of_states(const Allocator*) { return states_on_device(device_, &memory_of_states_); }

 private:
  ForkMark fork_;
  CudaDevice device_;
  const Allocator memory_of_states_ = allocator_of(device_);
};

}  // namespace METAC_RUNTIME_NAMESPACE
