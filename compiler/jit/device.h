// What programs of the JIT run on, if not on the threads of this process: a device makes their kernels, holds their weights
// and runs them. devices.cpp has those that there are; each stands in a folder of its own.
#pragma once
#include <memory>
#include <vector>

#include "compiler/jit/program_context.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/printing/kernel_source.h"

namespace metac {

struct JitOptions;
class Target;

// The kernels of one program, ready to run.
class DeviceKernels {
 public:
  virtual ~DeviceKernels() = default;
  // By the position in the program.
  virtual const std::vector<rt::KernelFunction>& functions() const = 0;
  // Weights in the memory of the device, as one block of so many bytes. Throws CompileError.
  virtual std::shared_ptr<const void> hold(const void* weights, int64_t bytes) const = 0;
  // A context that is not created yet.
  virtual std::unique_ptr<ProgramContext> context() const = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  // Throws CompileError where the machine has no such device, or nothing that drives it.
  virtual void open() const = 0;
  // Where values live that runs hand on to the next (StateSet::live_in).
  virtual rt::StatePlace place_of_states() const = 0;
  // The host's side of kernels is compiled for `cpu`. Throws KernelCompileError, CompileError.
  virtual std::shared_ptr<const DeviceKernels> compile(const std::vector<KernelSource>& kernels, const CpuTarget& cpu,
                                                       const JitOptions& options) const = 0;
};

// What kernels of this target run on; null: the threads of this process.
const Device* device_of(const Target& target);

}  // namespace metac
