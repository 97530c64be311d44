// A GPU as the place of a program of the JIT, by the driver alone. Everything happens in order on the default stream;
// nothing is recorded: a program here runs once or a few times. Generated libraries have runtime/cuda/place.h.
#pragma once
#include <map>
#include <string>

#include "compiler/jit/cuda/cuda_driver.h"
#include "runtime/executor/executor.h"

namespace metac_runtime {

// What a kernel's host's side is given for scratch memory (cuda_kernels.cpp prints its other end).
struct DriverLaunch {
  void (*start)(DriverLaunch*, const char* kernel, int64_t blocks, int threads, void** arguments);
  void* scratch;
  int64_t scratch_bytes;
  class DriverDevice* device;
  int status;
};

// Memory that only grows.
class DriverBlock {
 public:
  DriverBlock() = default;
  DriverBlock(const DriverBlock&) = delete;
  DriverBlock& operator=(const DriverBlock&) = delete;
  ~DriverBlock() { release(); }

  void* data() const { return reinterpret_cast<void*>(data_); }
  int64_t capacity() const { return capacity_; }
  bool reserve(int64_t bytes, int64_t keep = 0) {
    if (bytes <= capacity_ && data_ != 0) return true;
    if (bytes < 0 || bytes > most_bytes) return false;
    const metac::CudaDriver& driver = *metac::cuda_device().driver;
    const int64_t size = align_up(bytes > 0 ? bytes : 1);
    metac::CudaAddress fresh = 0;
    if (driver.take(&fresh, static_cast<size_t>(size)) != 0) return false;
    if (keep > 0 && driver.copy(fresh, data_, static_cast<size_t>(keep)) != 0) {
      driver.give(fresh);
      return false;
    }
    release();
    data_ = fresh;
    capacity_ = size;
    return true;
  }

 private:
  void release() {
    if (data_ != 0) metac::cuda_device().driver->give(data_);
    data_ = 0;
    capacity_ = 0;
  }
  metac::CudaAddress data_ = 0;
  int64_t capacity_ = 0;
};

class DriverDevice {
 public:
  explicit DriverDevice(std::map<std::string, void*> functions)
      : driver(*metac::cuda_device().driver), functions_(std::move(functions)) {}

  bool good(int status, const char* what, Failure& failure) const {
    constexpr int out_of_memory = 2;
    return status == 0 || failure.set(status == out_of_memory ? Status::out_of_memory : Status::unsupported, "CUDA: %s: %s",
                                      what, driver.text_of(status).c_str());
  }
  void* function(const char* name) const {
    auto found = functions_.find(name);
    return found == functions_.end() ? nullptr : found->second;
  }

  const metac::CudaDriver& driver;

 private:
  std::map<std::string, void*> functions_;  // by the name that the host's side has
};

template <>
struct Place<DriverDevice> {
  using Memory = DriverBlock;
  using HostMemory = Block;
  static constexpr bool separate = true, records = false, caches = false;
  struct Graph {};

  static bool reserve(DriverDevice&, Memory& block, int64_t bytes, int64_t keep) { return block.reserve(bytes, keep); }
  static bool enter(DriverDevice& device, Failure& failure) {
    return device.good(device.driver.set_context(metac::cuda_device().context), "choosing the device", failure);
  }
  static bool wait(DriverDevice& device, Failure& failure) {
    return device.good(device.driver.synchronize(), "running the kernels", failure);
  }
  static bool leave(DriverDevice& device, Failure& failure) { return wait(device, failure); }
  static bool in_place(const void*) { return false; }
  static int64_t scratch_parts(DriverDevice&, int64_t blocks) { return blocks; }
  static bool copy(DriverDevice& device, void* to, const void* from, int64_t bytes, Failure& failure) {
    return device.good(device.driver.copy(reinterpret_cast<metac::CudaAddress>(to),
                                          reinterpret_cast<metac::CudaAddress>(from), static_cast<size_t>(bytes)),
                       "copying", failure);
  }
  static bool begin_inputs(DriverDevice&, int64_t, Failure&) { return true; }
  static bool take_input(DriverDevice& device, void* to, const void* from, int64_t bytes, Failure& failure) {
    return copy(device, to, from, bytes, failure);
  }
  static bool end_inputs(DriverDevice&, Failure&) { return true; }
  static bool to_device(DriverDevice& device, void* to, const void* from, int64_t bytes, Failure& failure) {
    return copy(device, to, from, bytes, failure);
  }
  static bool hand_out(DriverDevice& device, void* to, const void* from, int64_t bytes, Failure& failure) {
    return wait(device, failure) && copy(device, to, from, bytes, failure);
  }
  static bool to_host(DriverDevice& device, void* to, const void* from, int64_t bytes, Failure& failure) {
    return hand_out(device, to, from, bytes, failure);
  }
  static bool launch(DriverDevice& device, LaunchRequest& r, Failure& failure) {
    DriverLaunch launch{&start, r.scratch, r.scratch_bytes, &device, 0};
    r.kernel(r.buffers, r.symbols, &launch, 0, r.iterations);
    return device.good(launch.status, "starting a kernel", failure);
  }

 private:
  // Grids have two dimensions because one holds no more than 2^31 - 1 blocks.
  static void start(DriverLaunch* launch, const char* kernel, int64_t blocks, int threads, void** arguments) {
    constexpr int64_t most = 2147483647, most_rows = 65535;
    constexpr int invalid_value = 1;
    const int64_t rows = (blocks + most - 1) / most;
    void* const function = launch->device->function(kernel);
    if (rows > most_rows || function == nullptr) {
      launch->status = invalid_value;
      return;
    }
    launch->status =
        launch->device->driver.launch(function, static_cast<unsigned>(rows > 1 ? most : blocks), static_cast<unsigned>(rows),
                                      1, static_cast<unsigned>(threads), 1, 1, 0, nullptr, arguments, nullptr);
  }
};

}  // namespace metac_runtime
