// One program of a session: a model compiled for a reliance, with weights that it shares with the session's others.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "compiler/jit/jit_program.h"
#include "compiler/program/compile.h"
#include "compiler/session/reliance.h"
#include "compiler/session/weight_store.h"

namespace metac {

// How long the parts of making one program took, in seconds; a program found on disk is not lowered.
struct SpecialisationTimes {
  double lower = 0, compile = 0, kernels = 0, prepare = 0;
  double all() const { return lower + compile + kernels + prepare; }
};

struct SessionProgram {
  Reliance reliance;
  bool open = false;  // the one that answers shapes which have no program of their own
  // Without what only compiling needs; of parameters that bear a name the model has the elements.
  std::shared_ptr<const CompiledModel> compiled;
  int64_t weight_bytes = 0;

  std::shared_ptr<const JitCode> code;  // another one with the same kernels when weights are set; under the session's lock
  int64_t last_use = 0;                 // under the session's lock
  bool dropped = false;                 // under the session's lock
  std::atomic<int64_t> runs{0}, run_ns{0};  // run_ns: what those of an open program took
  std::unique_ptr<JitProgram> for_caller;  // Session::program_for
};

struct ProgramMaker {
  const LowerOptions* lower;
  const CompileOptions* compile;
  JitOptions jit;
  WeightStore* weights;  // null: programs share none, each has one block

  // Throws CompileError, KernelCompileError, Interrupted.
  std::shared_ptr<SessionProgram> make(const Model& model, const Reliance& reliance, SpecialisationTimes* times) const;
  // Could it be made? Kernels are not.
  bool can_make(const Model& model, const Reliance& reliance) const;
  // The program's code with the elements that `model` has now, of which the initialisers `changed` are new; null where they
  // may be more than weights to the program, so that it must be made anew.
  std::shared_ptr<const JitCode> with_weights(const SessionProgram& program, const JitCode& code, const Model& model,
                                              const std::set<std::string>& changed) const;

 private:
  // Found on disk, or made and left there.
  std::shared_ptr<const CompiledModel> compiled_model(const Model& model, const LowerOptions& options,
                                                      SpecialisationTimes* took) const;
  JitOptions options() const;
  PreparedWeights prepared(const CompiledModel& compiled, const std::vector<RawParameter>& parameters) const;
};

}  // namespace metac
