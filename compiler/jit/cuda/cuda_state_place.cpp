#include "compiler/jit/cuda/cuda_state_place.h"

#include "compiler/jit/cuda/cuda_place.h"

namespace metac {
namespace {

namespace rt = metac_runtime;
using Here = rt::Place<rt::DriverDevice>;
using Pieces = rt::StatePlace::Pieces;

// Without kernels: for memory alone.
rt::DriverDevice& device() {
  static rt::DriverDevice opened({});
  return opened;
}

void* take(void*, size_t bytes, size_t) {
  rt::Failure unused;
  CudaAddress data = 0;
  return Here::enter(device(), unused) && device().driver.take(&data, bytes) == 0 ? reinterpret_cast<void*>(data) : nullptr;
}
void give(void*, void* memory, size_t) {
  rt::Failure unused;
  if (Here::enter(device(), unused)) device().driver.give(reinterpret_cast<CudaAddress>(memory));
}
constexpr rt::Allocator device_memory{take, give, nullptr};

// Every thread that calls needs the context.
bool move(void*, void* to, int64_t to_step, const void* from, Pieces pieces, rt::Failure& failure) {
  if (!Here::enter(device(), failure)) return false;
  return rt::move_apart(device_memory, to, to_step, from, pieces, failure,
                        [&](void* target, int64_t target_step, const void* source, Pieces p) {
                          bool good = true;
                          for (int64_t i = 0; i < p.count && good; ++i)
                            good = Here::copy(device(), static_cast<char*>(target) + i * target_step,
                                              static_cast<const char*>(source) + i * p.step, p.bytes, failure);
                          return good;
                        });
}

bool clear(void*, void* data, Pieces pieces, rt::Failure& failure) {
  bool good = Here::enter(device(), failure);
  for (int64_t i = 0; i < pieces.count && good; ++i) {
    const auto at = reinterpret_cast<CudaAddress>(static_cast<char*>(data) + i * pieces.step);
    good = device().good(device().driver.clear(at, 0, static_cast<size_t>(pieces.bytes)), "clearing a state", failure);
  }
  return good;
}

bool wait(void*, rt::Failure& failure) { return Here::enter(device(), failure) && Here::wait(device(), failure); }

}  // namespace

rt::StatePlace cuda_state_place() { return {&device_memory, nullptr, move, clear, wait}; }

}  // namespace metac
