#include "compiler/jit/cuda/cuda_state_place.h"

#include "compiler/jit/cuda/cuda_driver.h"

namespace metac {
namespace {

namespace rt = metac_runtime;
using Pieces = rt::StatePlace::Pieces;

CudaAddress address(const void* data) { return reinterpret_cast<CudaAddress>(data); }

// Every thread that calls needs the context.
bool good(int status, const char* what, rt::Failure& failure) {
  constexpr int out_of_memory = 2;
  return status == 0 ||
         failure.set(status == out_of_memory ? rt::Status::out_of_memory : rt::Status::unsupported, "CUDA: %s: %s", what,
                     cuda_device().driver->text_of(status).c_str());
}
bool enter(rt::Failure& failure) {
  return good(cuda_device().driver->set_context(cuda_device().context), "choosing the device", failure);
}

void* take(void*, size_t bytes, size_t) {
  rt::Failure unused;
  CudaAddress data = 0;
  return enter(unused) && cuda_device().driver->take(&data, bytes) == 0 ? reinterpret_cast<void*>(data) : nullptr;
}
void give(void*, void* memory, size_t) {
  rt::Failure unused;
  if (enter(unused)) cuda_device().driver->give(address(memory));
}
constexpr rt::Allocator device_memory{take, give, nullptr};

bool move(void*, void* to, int64_t to_step, const void* from, Pieces pieces, rt::Failure& failure) {
  if (!enter(failure)) return false;
  return rt::move_apart(device_memory, to, to_step, from, pieces, failure,
                        [&](void* target, int64_t target_step, const void* source, Pieces p) {
                          int status = 0;
                          for (int64_t i = 0; i < p.count && status == 0; ++i)
                            status = cuda_device().driver->copy(address(static_cast<char*>(target) + i * target_step),
                                                                address(static_cast<const char*>(source) + i * p.step),
                                                                static_cast<size_t>(p.bytes));
                          return good(status, "moving a state", failure);
                        });
}

bool clear(void*, void* data, Pieces pieces, rt::Failure& failure) {
  if (!enter(failure)) return false;
  int status = 0;
  for (int64_t i = 0; i < pieces.count && status == 0; ++i)
    status = cuda_device().driver->clear(address(static_cast<char*>(data) + i * pieces.step), 0,
                                         static_cast<size_t>(pieces.bytes));
  return good(status, "clearing a state", failure);
}

bool wait(void*, rt::Failure& failure) {
  return enter(failure) && good(cuda_device().driver->synchronize(), "waiting for a run", failure);
}

}  // namespace

rt::StatePlace cuda_state_place() { return {&device_memory, nullptr, move, clear, wait}; }

}  // namespace metac
