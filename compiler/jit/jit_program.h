// A compiled program that can be called: the executor of generated libraries over tables on the heap and kernels from the
// in-process compiler.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "compiler/jit/kernel_library.h"
#include "compiler/jit/prepared_weights.h"
#include "compiler/program/program.h"
#include "runtime/executor/executor.h"
#include "runtime/executor/states.h"

namespace metac {

// rt::StepTime with a name.
struct StepProfile {
  std::string what;  // the kernel's or routine's name, else the step's kind
  int64_t runs = 0, ns = 0;
  double operations = 0, bytes = 0;
};

// What all that run a program share: its tables, kernels and weights. Never changes.
class JitCode {
 public:
  // Compiles the kernels or finds them. Throws CompileError, KernelCompileError.
  JitCode(std::shared_ptr<const CompiledProgram> compiled, PreparedWeights weights, const CpuTarget& cpu,
          const JitOptions& options = {});
  // The same with other weights; the kernels are shared.
  JitCode(const JitCode& other, PreparedWeights weights);
  ~JitCode();

  const CompiledProgram& compiled() const { return *compiled_; }
  // The tables, which stay while this is held; kernels and weights do not.
  std::shared_ptr<const rt::Program> tables() const;
  bool runs_on_threads() const;  // of this process; else on a device
  int64_t code_bytes() const;    // of machine code; what programs share is counted with each. 0 on a device.
  // Kernels that are new, and how many came from where. On a device they are not counted.
  KernelOrigins origins() const;

 private:
  friend class JitProgram;
  struct Place;
  void place();

  std::shared_ptr<const CompiledProgram> compiled_;
  PreparedWeights weights_;
  std::shared_ptr<const KernelLibrary> kernels_;  // on threads
  std::shared_ptr<const class DeviceKernels> device_kernels_;
  std::unique_ptr<Place> place_;
};

using HostMemory = rt::WorkingMemory<rt::Block>;

// 0: one per usable CPU. Throws CompileError where there is no memory for them.
std::shared_ptr<rt::ThreadPool> started_threads(int threads);

// A context of a program: memory, threads, and the state of a run. For one thread at a time.
class JitProgram {
 public:
  // `threads`: workers of a run; 0: one per usable CPU. Throws CompileError.
  explicit JitProgram(std::shared_ptr<const JitCode> code, int threads = 0);
  // On threads, and in memory, that several contexts have in turn: two of them must not run at once. A device has no use for
  // either. null: memory of its own.
  JitProgram(std::shared_ptr<const JitCode> code, std::shared_ptr<rt::ThreadPool> threads,
             std::shared_ptr<HostMemory> memory = nullptr);
  // With code of its own.
  JitProgram(std::shared_ptr<const CompiledProgram> compiled, WeightsBlock weights, const CpuTarget& cpu, int threads = 0,
             const JitOptions& options = {});
  ~JitProgram();

  // Inputs in the program's order, of its dtypes. The outputs have memory of their own. Throws CompileError with the
  // executor's message. A program with states is run on `states`, which are for its tables: inputs and outputs are the
  // others, and a run that throws leaves the states as they were.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs, rt::StateSet* states = nullptr);
  // Runs and throws the answers away: for timing.
  void run_only(const std::vector<Tensor>& inputs);
  // Outputs with memory are written there.
  void run_into(const std::vector<Tensor>& inputs, const std::vector<rt::OutputView>& outputs);

  // Inputs where they are, of the program's dtypes.
  void run_views(const std::vector<rt::InputView>& inputs, const std::vector<rt::OutputView>& outputs);

  void start_profile();                      // from zero
  void stop_profile();                       // what was measured is kept
  std::vector<StepProfile> profile() const;  // by step, in program order, since start_profile()
  // Working memory after a run: the arena as planned for its shapes, with what workers have for slices of a batch; all that
  // is held for values and not shared.
  int64_t arena_bytes() const;
  int64_t held_bytes() const;
  const CompiledProgram& compiled() const { return code_->compiled(); }
  const std::shared_ptr<const JitCode>& code() const { return code_; }

 private:
  void trace_steps(int64_t begin_ns, int64_t end_ns) const;
  std::vector<int64_t> output_shape(int32_t output) const;

  std::shared_ptr<const JitCode> code_;
  std::unique_ptr<class ProgramContext> context_;
  std::vector<rt::StepTime> times_;  // of what is profiled
};

}  // namespace metac
