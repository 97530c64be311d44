// Running a model at once, in whatever shapes come: every new set of input shapes is compiled in-process once and kept.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/jit/jit_program.h"
#include "compiler/ops/lower_model.h"
#include "compiler/ops/model.h"
#include "compiler/passes/compile.h"

namespace metac {

struct SessionOptions {
  CompileOptions compile;   // compile.cpu must be one that runs here
  LowerOptions lower;       // its input_shapes are overridden by the shapes of what is run
  int threads = 0;          // 0: one per usable CPU
};

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
  // What a program may rely on besides the shapes. Axes, shapes and scales that come as inputs can decide a rank or a
  // branch: where shapes alone do not do, the values of small inputs (first integers, then all) become part of the key.
  enum class Known { shapes, small_integers, small_inputs };
  static bool is_relied_on(const Tensor& tensor, Known known);
  std::unique_ptr<JitProgram> specialise(const std::map<std::string, Tensor>& inputs, Known known);
  JitProgram& find_or_make(const std::map<std::string, Tensor>& given, Known known);

  Model model_;
  SessionOptions options_;
  Known known_ = Known::shapes;  // the least that has worked so far
  std::map<std::string, std::unique_ptr<JitProgram>> programs_;  // by the shapes (and values relied on), as text
  SpecialisationTimes times_;
};

// The inputs that a caller gives: the graph's, less those that are initialisers only.
std::vector<Value> free_inputs(const Model& model);

// Throws one CompileError with all of check_model's findings, one a line.
void require_compilable(const Model& model);

}  // namespace metac
