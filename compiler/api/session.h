// Running a model at once, in whatever shapes come: every new set of input shapes is compiled in-process once and kept.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/jit/jit_program.h"
#include "compiler/ops/lower_model.h"
#include "compiler/ops/model.h"
#include "compiler/program/compile.h"

namespace metac {

// What a program may rely on beside dtypes and ranks; each includes what stands before it.
enum class Known {
  ranks,           // nothing: every dim is open
  lengths,         // how many elements integer vectors have: axes, pads and shapes come so, and decide ranks
  shapes,          // all shapes: what a library for static shapes knows
  small_integers,  // the values of small inputs of integers too
  small_inputs,    // and of floats
};

struct SessionOptions {
  CompileOptions compile;  // compile.cpu must be one that runs here
  LowerOptions lower;      // its input_shapes are overridden by the shapes of what is run
  int threads = 0;         // 0: one per usable CPU
  // Axes, shapes and scales that come as inputs can decide a rank or a branch: where the least does not do, more is relied
  // on, up to the most. Below `shapes`, the shapes that the model declares are forgotten.
  Known least_known = Known::shapes, most_known = Known::small_inputs;
};

// `base` with all that a program for these inputs may rely on at that level.
LowerOptions relying_on(LowerOptions base, const Model& model, const std::map<std::string, Tensor>& inputs, Known known);
// Every dim of the inputs becomes a symbol of its own; of all other values only ranks stay declared.
void open_all_dims(Model& model);

// How long the parts of making one specialisation took, in seconds.
struct SpecialisationTimes {
  double lower = 0, compile = 0, kernels = 0, prepare = 0;
};

class Session {
 public:
  // Throws CompileError listing everything that stops the model from being compiled.
  Session(Model model, SessionOptions options);

  // Inputs by name; ones with a default (an initialiser of the same name) may be absent. Outputs in the model's order.
  // Throws CompileError naming what is missing, unknown or of another dtype or rank.
  std::vector<std::pair<std::string, Tensor>> run(const std::map<std::string, Tensor>& inputs);

  // The program for these inputs' shapes, and the inputs in its order.
  JitProgram& program_for(const std::map<std::string, Tensor>& inputs, std::vector<Tensor>* ordered);
  const Model& model() const { return model_; }
  const SpecialisationTimes& times() const { return times_; }  // of the last one made

 private:
  std::unique_ptr<JitProgram> specialise(const std::map<std::string, Tensor>& inputs, Known known);
  JitProgram& find_or_make(const std::map<std::string, Tensor>& given, Known known);

  Model model_;
  SessionOptions options_;
  Known known_;                                                  // the least that has worked so far
  std::map<std::string, std::unique_ptr<JitProgram>> programs_;  // by the shapes and values relied on, as text
  SpecialisationTimes times_;
};

// Does the program draw random numbers?
bool draws(const CompiledProgram& program);

// The inputs that a caller gives: the graph's, less those that are initialisers only.
std::vector<Value> free_inputs(const Model& model);

// Throws one CompileError with all of check_model's findings, one a line.
void require_compilable(const Model& model);

}  // namespace metac
