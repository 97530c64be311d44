// The states of one caller of a session (compiler/ops/states.h): they go from run to run, whichever of the session's
// programs answers, and belong to nobody else.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "compiler/jit/jit_program.h"
#include "compiler/session/declared_states.h"
#include "compiler/session/reliance.h"

namespace metac {

// All calls may be made from several threads: they follow one another.
class StreamStates {
 public:
  // `held`: the bytes of all streams of the session. What is given must outlive it.
  StreamStates(const DeclaredStates& declared, const metac_runtime::StatePlace& where, std::atomic<int64_t>& held);
  ~StreamStates();
  StreamStates(const StreamStates&) = delete;
  StreamStates& operator=(const StreamStates&) = delete;

  // JitProgram::run on these states.
  std::vector<Tensor> run(JitProgram& context, const std::vector<Tensor>& inputs);
  void reset();
  // The elements now, copied; dims of 0 where there is no value since the last reset. Throws CompileError where there is no
  // such state, as the others do for what they are not given rightly.
  Tensor get(const std::string& name) const;
  // All or none; copied.
  void set(const NamedTensors& states);
  // States that grow keep their first `length` steps.
  void truncate(int64_t length);
  // The values of another one of the same session.
  void copy(const StreamStates& other);

 private:
  size_t named(const std::string& name) const;
  void move_to(const JitCode& code);  // under the lock, as the next ones
  int grown_axis(size_t state) const;
  void count_bytes();

  // Null: no memory for them.
  std::unique_ptr<metac_runtime::StateSet> set_for(const metac_runtime::Program& tables) const;

  const DeclaredStates& declared_;
  const metac_runtime::StatePlace where_;
  std::atomic<int64_t>& held_;
  int64_t counted_ = 0;
  mutable std::mutex mutex_;
  std::shared_ptr<const metac_runtime::Program> tables_;  // that `states_` are for; null: there has been no run
  std::unique_ptr<metac_runtime::StateSet> states_;
  std::map<size_t, Tensor> given_;  // by state: values for the next run, which says how they are kept
};

}  // namespace metac
