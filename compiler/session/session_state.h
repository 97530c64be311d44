// What a session holds: its programs, the contexts that they run in, and who compiles behind.
#pragma once
#include <atomic>
#include <condition_variable>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/session/changing_dims.h"
#include "compiler/session/compile_behind.h"
#include "compiler/session/contexts.h"
#include "compiler/session/session.h"
#include "compiler/session/stream_states.h"

namespace metac {

class SessionState {
 public:
  using Outputs = std::vector<std::pair<std::string, Tensor>>;
  using ProgramPtr = std::shared_ptr<SessionProgram>;

  SessionState(Model model, SessionOptions options);

  // `stream`: whose states; null: nobody's.
  Outputs run(const NamedTensors& inputs, StreamStates* stream = nullptr);
  std::unique_ptr<StreamStates> open_stream();
  void close_stream(std::unique_ptr<StreamStates> stream);
  std::optional<Outputs> try_run(const NamedTensors& inputs);
  void set_weights(const NamedTensors& weights);
  void wait() const;
  JitProgram& program_for(const NamedTensors& inputs, std::vector<Tensor>* ordered);
  const Model& model() const { return declared_; }
  SpecialisationTimes times() const;
  SessionReport report() const;

 private:
  // A program that is made or being made.
  struct Slot {
    ProgramPtr program;
    std::exception_ptr error;
    bool making = true;
  };
  // A shape without a program of its own.
  struct Seen {
    int64_t runs = 0;
    bool queued = false, impossible = false;
  };

  // The session's programs (session_programs.cpp).
  ProgramPtr get(const Reliance& reliance, bool open, const std::string& reason);
  ProgramPtr ready(const Reliance& reliance, bool open) const;  // under the lock, as all that follow
  ProgramPtr ready_open(const Reliance& wanted) const;
  std::vector<ProgramPtr> specialisations() const;
  void drop_beyond_limits(const SessionProgram* keep);
  int64_t specialised_bytes() const;
  void tell_of_shapes_that_do_not_repeat() const;

  // Which of them answers (choose_program.cpp).
  Reliance reliance(const NamedTensors& inputs, const RelianceLevel& level) const;
  ProgramPtr choose(const NamedTensors& inputs);
  ProgramPtr find_or_make(const NamedTensors& inputs, bool* settled);
  ProgramPtr specialised_or_noted(const NamedTensors& inputs);  // under the lock, as the next one
  ProgramPtr ready_specialisation(const NamedTensors& inputs, Reliance* wanted) const;
  ProgramPtr make_for(const NamedTensors& inputs, bool open, const std::string& reason);
  ProgramPtr open_program(const NamedTensors& inputs);
  void narrow(const NamedTensors& inputs, bool open, RelianceLevel& level);
  // `by`: the open program, where it answers. Under the lock, as the next ones.
  bool consider(const Reliance& wanted, const Reliance& open, const SessionProgram* by);
  bool is_worth_a_program(const Seen& seen, const SessionProgram* by) const;
  void forget_answers();
  void specialise_behind(const Reliance& wanted);

  Outputs run_in(const ProgramPtr& program, const NamedTensors& inputs, StreamStates* stream);
  // Nothing: no context is free, and `wait` is false.
  std::optional<Outputs> run_code(const ProgramPtr& program, const std::shared_ptr<const JitCode>& code,
                                  const NamedTensors& inputs, StreamStates* stream, bool wait);
  bool count_run(SessionProgram& program);
  std::shared_ptr<const JitCode> code_of(SessionProgram& program);  // for a run; under the lock
  metac_runtime::StatePlace place_of_states() const;
  std::vector<Tensor> ordered(const CompiledProgram& program, const NamedTensors& inputs) const;

  Model declared_;                            // as it was read
  const std::shared_ptr<const Model> named_;  // the same with names for all open dims
  const DeclaredStates states_;
  const AcceptedInputs accepted_;
  SessionOptions options_;
  WeightStore weights_;
  ProgramMaker maker_;
  Contexts contexts_;

  mutable std::mutex mutex_;
  std::condition_variable made_;
  std::shared_ptr<const Model> model_;  // with the weights of now
  RelianceLevel special_level_, open_level_;
  bool open_impossible_ = false;
  std::map<std::string, std::shared_ptr<Slot>> slots_;
  std::map<std::string, Seen> seen_;
  // Who answers inputs of which shapes, until a program comes or goes or more is relied on.
  std::unordered_map<std::string, ProgramPtr> answers_;
  int64_t forgotten_ = 0;  // how often they were
  ChangingDims changing_;
  int64_t clock_ = 0, runs_wanted_ = 2;  // of a shape before it is specialised behind
  std::atomic<int64_t> runs_{0}, open_runs_{0};
  int fruitless_ = 0;  // runs that failed although more was relied on
  std::atomic<int64_t> streams_{0}, state_bytes_{0};
  std::atomic<int64_t> repeated_{0};  // runs by a specialisation that had run before
  SpecialisationTimes times_;
  SessionReport report_;  // the part that is counted

  std::mutex setting_weights_;
  mutable CompileBehind behind_;  // last: it stops before the rest goes
};

}  // namespace metac
