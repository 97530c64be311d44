// The first NVIDIA GPU as a device of the JIT.
#include "compiler/jit/cuda/cuda_kernels.h"
#include "compiler/jit/cuda/cuda_place.h"
#include "compiler/jit/cuda/cuda_state_place.h"
#include "compiler/jit/device.h"
#include "compiler/jit/run_error.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

// The device is a base, so that it is there before the executor and after it.
struct HeldDevice {
  rt::DriverDevice device;
};
class CudaContext final : HeldDevice, public ProgramContextOn<rt::DriverDevice> {
 public:
  explicit CudaContext(const CudaKernels& kernels)
      : HeldDevice{rt::DriverDevice(kernels.device_functions())}, ProgramContextOn(device) {}
};

class CudaProgram final : public DeviceKernels {
 public:
  CudaProgram(const std::vector<KernelSource>& kernels, const CpuTarget& cpu, const JitOptions& options)
      : kernels_(kernels, cpu, options) {}

  const std::vector<rt::KernelFunction>& functions() const override { return kernels_.functions(); }

  std::shared_ptr<const void> hold(const void* weights, int64_t bytes) const override {
    auto block = std::make_shared<rt::DriverBlock>();
    rt::DriverDevice device(kernels_.device_functions());
    if (bytes > 0) {
      if (!block->reserve(bytes)) throw no_memory(bytes, "bytes of weights on the device");
      rt::Failure failure;
      if (!rt::Place<rt::DriverDevice>::to_device(device, block->data(), weights, bytes, failure)) fail(failure.message);
    }
    return {block, block->data()};
  }

  std::unique_ptr<ProgramContext> context() const override { return std::make_unique<CudaContext>(kernels_); }

 private:
  CudaKernels kernels_;
};

class CudaDevice final : public Device {
 public:
  void open() const override { cuda_device(); }
  rt::StatePlace place_of_states() const override { return cuda_state_place(); }
  std::shared_ptr<const DeviceKernels> compile(const std::vector<KernelSource>& kernels, const CpuTarget& cpu,
                                               const JitOptions& options) const override {
    return std::make_shared<CudaProgram>(kernels, cpu, options);
  }
};

}  // namespace

const Device& cuda_jit_device() {
  static const CudaDevice device;
  return device;
}

}  // namespace metac
