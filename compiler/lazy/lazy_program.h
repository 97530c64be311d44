// Compiled programs of cuts, one for each structure.
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "compiler/jit/jit_program.h"
#include "compiler/lazy/next_values.h"
#include "compiler/lazy/structure_hash.h"

namespace metac::lazy {

// Compiled code and a context to run it in; for one thread at a time.
class LazyProgram {
 public:
  // One that runs at a time shares threads and working memory with the others.
  LazyProgram(const Model& model, const NextValues& next, std::shared_ptr<rt::ThreadPool> threads,
              std::shared_ptr<HostMemory> memory);
  // Throws RunError.
  void run(const std::vector<rt::InputView>& inputs, const std::vector<rt::OutputView>& outputs);
  // Of shapes that only running shows.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs);
  // Outputs that may be given their input's memory.
  const NextValues& overwrites() const { return overwrites_; }

 private:
  std::unique_ptr<JitProgram> program_;
  NextValues overwrites_;
};

class LazyPrograms {
 public:
  // Found or compiled. Throws CompileError.
  std::shared_ptr<LazyProgram> find(const Cut& cut);
  // Of one node, whose outputs have no types yet.
  std::shared_ptr<LazyProgram> find(const Node& node);
  int64_t made() const { return made_; }
  // Throws RunError in a child of fork: the threads of the parent's programs are not there.
  void check_process() const;

 private:
  std::shared_ptr<LazyProgram> kept(const StructureHash& key, const Model& model, const NextValues& next);
  void start();

  std::unordered_map<StructureHash, std::shared_ptr<LazyProgram>> programs_;
  std::shared_ptr<rt::ThreadPool> threads_;
  std::shared_ptr<HostMemory> memory_;
  int process_ = 0;  // that has the threads
  int64_t made_ = 0;
};

}  // namespace metac::lazy
