// Running a model at once, in whatever shapes come, from any thread. A session has a program whose open dims are symbols
// and answers every shape with it; programs for the shapes that come often (specialisations) are compiled behind and take
// over between two runs. docs/sessions.md tells who uses it how.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/session/given_inputs.h"
#include "compiler/session/reliance.h"
#include "compiler/session/session_program.h"

namespace metac {

// When a program for a shape is compiled.
enum class Specialise {
  eager,       // before the shape's first run, which waits for it
  background,  // behind runs of the open program, for shapes that come again
  never,       // the open program answers all
};
std::optional<Specialise> specialise_named(const std::string& name);

struct SessionOptions {
  CompileOptions compile;  // compile.cpu must be one that runs here
  LowerOptions lower;      // its input_shapes are overridden by the shapes of what is run
  int threads = 0;         // of a run; 0: one per usable CPU
  // Axes, shapes and scales that come as inputs can decide a rank or a branch: where the least does not do, more is relied
  // on, up to the most. Below `shapes`, the shapes that the model declares are forgotten.
  Known least_known = Known::shapes, most_known = Known::small_inputs;
  Specialise specialise = Specialise::eager;
  // The least recently used specialisations go where there are more, or where they hold more memory than this: machine
  // code, tables, working memory and weights that no other program has. 0: no limit.
  int max_specialisations = 64;
  int64_t max_memory = 0;
  // Prepared weights that the caller has, aligned to 64 bytes: what programs prepare alike is read there. They must stay.
  std::vector<std::string_view> prepared;
  // lower.states: values that one run of a stream hands to the next; a run without a stream has them at their beginning.
  int max_contexts = 0;  // runs side by side; further calls wait. 0: as many as there are usable CPUs
};

// What a session has done and holds.
struct SessionReport {
  int64_t runs = 0, open_runs = 0;    // of all runs, those by the open program
  int64_t compiled = 0, dropped = 0;  // specialisations
  int64_t waiting = 0;                // shapes whose specialisation is not made yet
  int64_t specialisations = 0;        // held now
  int64_t contexts = 0, threads = 0;  // held now; threads beside the callers'
  int64_t weight_bytes = 0;           // prepared weights, each counted once
  int64_t working_bytes = 0;          // of all contexts
  int64_t specialised_bytes = 0;      // what max_memory bounds
  int64_t streams = 0, state_bytes = 0;
  std::string open_problem;   // why there is no open program; empty: there is, or none was needed yet
  std::string changing_dims;  // "batch, tokens": dims that stay open, for they had too many values
};

class SessionState;

// All calls may be made from several threads at once.
class Session {
 public:
  // Throws CompileError listing everything that stops the model from being compiled.
  Session(Model model, SessionOptions options);
  ~Session();  // breaks off what is compiled behind; nobody may be in a call
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Inputs by name, states are none; ones with a default (an initialiser of the same name) may be absent. Outputs in the
  // model's order. Throws CompileError naming what is missing, unknown or of another dtype or rank.
  std::vector<std::pair<std::string, Tensor>> run(const std::map<std::string, Tensor>& inputs);

  // The same where a specialisation for these shapes is ready and a context is free; else nothing, at once: the shapes are
  // noted, and those that come again are specialised behind, but with the policy `never`. Nothing is compiled in this
  // thread, and no open program is made.
  std::optional<std::vector<std::pair<std::string, Tensor>>> try_run(const std::map<std::string, Tensor>& inputs);

  // Takes these for the model's initialisers of the same names, in all programs; those are compiled again only where the
  // elements are more than weights (CompiledModel::relied_on). Runs that are under way end with the old ones. Throws
  // CompileError where one is unknown or of another dtype or shape.
  void set_weights(const std::map<std::string, Tensor>& weights);

  // Blocks until no specialisation is waiting or being made: for tests and benchmarks.
  void wait() const;

  // The specialised program for these inputs' shapes, compiled now if it is not there, and the inputs in its order, in a
  // context of its own: for one thread, until this program is dropped.
  JitProgram& program_for(const std::map<std::string, Tensor>& inputs, std::vector<Tensor>* ordered);
  const Model& model() const;
  SpecialisationTimes times() const;  // of the last program made
  SessionReport report() const;

 private:
  friend class Stream;
  std::unique_ptr<SessionState> state_;
};

// A caller of a session with states of its own (compiler/session/stream_states.h). Programs and weights are the session's;
// streams run side by side, the calls of one follow one another. The session must outlive it.
class Stream {
 public:
  explicit Stream(Session& session);
  ~Stream();

  // Session::run from these states. One that throws leaves them as they were.
  std::vector<std::pair<std::string, Tensor>> run(const std::map<std::string, Tensor>& inputs);
  void reset();  // zeros, and empty along the axis that grows
  Tensor get(const std::string& state) const;
  void set(const std::map<std::string, Tensor>& states);
  void truncate(int64_t length);
  std::unique_ptr<Stream> fork() const;  // another stream with the same values

 private:
  explicit Stream(SessionState* session);
  SessionState* const session_;
  std::unique_ptr<class StreamStates> states_;
};

// Does the program draw random numbers?
bool draws(const CompiledProgram& program);

// Throws one CompileError with all of check_model's findings, one a line.
void require_compilable(const Model& model);

}  // namespace metac
