// A compiled program that can be called: the executor of generated libraries over tables on the heap and kernels from the
// in-process compiler.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "compiler/jit/kernel_library.h"
#include "compiler/program/program.h"

namespace metac {

// A block of memory, 64-byte aligned.
using WeightsBlock = std::shared_ptr<const std::byte>;

// rt::StepTime with a name.
struct StepProfile {
  std::string what;  // the kernel's or routine's name, else the step's kind
  int64_t runs = 0, ns = 0;
  double operations = 0, bytes = 0;
};

class JitProgram {
 public:
  // `threads`: workers of a run; 0: one per usable CPU. `compiled` is kept; `weights` may be null where the program has
  // none. Compiles or loads the kernels. Throws CompileError, KernelCompileError.
  JitProgram(std::shared_ptr<const CompiledProgram> compiled, WeightsBlock weights, const CpuTarget& cpu, int threads = 0,
             const JitOptions& options = {});
  ~JitProgram();

  // Inputs in the program's order, of its dtypes. The outputs are copies. Throws CompileError with the executor's message.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs);
  // Runs and throws the answers away: for timing.
  void run_only(const std::vector<Tensor>& inputs);

  void start_profile();                      // from zero
  void stop_profile();                       // what was measured is kept
  std::vector<StepProfile> profile() const;  // by step, in program order, since start_profile()
  // Working memory after a run: the arena as planned for its shapes, with what workers have for slices of a batch; all that
  // is held for values.
  int64_t arena_bytes() const;
  int64_t held_bytes() const;
  const CompiledProgram& compiled() const { return *compiled_; }

 private:
  struct Context;
  class OnCpu;
  class OnGpu;
  std::shared_ptr<const CompiledProgram> compiled_;
  WeightsBlock weights_;
  std::unique_ptr<Context> context_;
};

// Runs the prepare program on the model's parameters and lays the results and the raw parameters out as the weights block.
WeightsBlock run_prepare(const CompiledModel& model, const CpuTarget& cpu, const JitOptions& options = {});

}  // namespace metac
