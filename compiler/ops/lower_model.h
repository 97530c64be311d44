// From a Model (operators by name) to a Graph (meta-operators), with dims as the options say.
#pragma once
#include <map>
#include <memory>

#include "compiler/ir/graph.h"
#include "compiler/ops/model.h"
#include "compiler/support/diagnostic.h"

namespace metac {

struct LowerOptions {
  std::map<std::string, std::vector<int64_t>> input_shapes;  // by input name; -1 leaves a dim open
  // By input name: inputs of at most 64 elements (larger ones are left out) whose values this lowering may rely on: axes,
  // shapes and scales that decide a rank or a branch. A run with other values fails with a message.
  std::map<std::string, Tensor> input_values;
  std::map<std::string, Symbol> dims;                        // by symbol name: min == max fixes it, else its range
  int64_t max_tensor_bytes = int64_t{1} << 36;               // larger constants and outputs are refused
  bool allow_code = false;                                   // the operator `code`: C++ of the model is compiled and run
  int64_t max_nodes = 1'000'000;                             // after inlining functions and subgraphs
};

// Throws CompileError naming file and node.
std::unique_ptr<Graph> lower_model(const Model& model, const LowerOptions& options);

// Every reason why the model cannot be compiled, at once: unknown operators, opsets, dtypes, structure (cycles, names
// defined twice or never). Empty: nothing found before lowering.
std::vector<Diagnostic> check_model(const Model& model);

}  // namespace metac
