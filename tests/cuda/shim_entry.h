// What run_on_shim compiles together with the kernels of its cases: one run of a program on the stand-in device.
#pragma once
#include "runtime/cuda/cuda_target.h"

namespace METAC_RUNTIME_NAMESPACE {

struct ShimRun {
  const Program* program;
  const void* weights;
  const RoutineEntry* routines;
  int32_t routine_count;
  const InputView* inputs;
  int32_t passes;  // runs behind each other
  // Called for each output.
  void (*take)(void* user, int32_t output, const void* data, int32_t rank, const int64_t* dims);
  void* user;
  Status status;
  char message[512];
};

}  // namespace METAC_RUNTIME_NAMESPACE

extern "C" __attribute__((visibility("default"))) inline bool shim_run(METAC_RUNTIME_NAMESPACE::ShimRun* r) {
  using namespace METAC_RUNTIME_NAMESPACE;
  const Program& p = *r->program;
  Failure failure;
  ThreadPool pool;
  Target target;
  ExecutorOn<Target::Device> executor;
  Array<OutputView> outputs;
  outputs.allocate(p.output_count);
  bool good = pool.start(1) && target.open(failure);
  const void* weights = good ? target.hold(r->weights, p.weight_bytes, p.load_count > 0, failure) : nullptr;
  good = good && failure.ok();
  for (int32_t pass = 0; good && pass < r->passes; ++pass) {
    if (pass == 0) good = executor.create(p, weights, target.device(pool), r->routines, r->routine_count) == Status::ok;
    good = good && executor.run(r->inputs, p.input_count, outputs.data(), p.output_count) == Status::ok;
    if (!good) failure = executor.failure();
  }
  for (int32_t i = 0; good && i < p.output_count; ++i) {
    int64_t dims[64];
    const int32_t rank = p.buffers[p.outputs[i].buffer].rank;
    for (int32_t axis = 0; axis < rank; ++axis) dims[axis] = executor.output_dim(i, axis);
    r->take(r->user, i, executor.output_data(i), rank, dims);
  }
  r->status = failure.status;
  std::memcpy(r->message, failure.message, sizeof r->message);
  return good;
}
