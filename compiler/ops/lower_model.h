// From a Model (operators by name) to a Graph (meta-operators), with dims as the options say.
#pragma once
#include <map>
#include <memory>

#include "compiler/ir/graph.h"
#include "compiler/ops/model.h"
#include "compiler/ops/states.h"
#include "compiler/support/diagnostic.h"

namespace metac {

struct LowerOptions {
  std::map<std::string, std::vector<int64_t>> input_shapes;  // by input name; -1 leaves a dim open
  // By input name: inputs of at most 64 elements (larger ones are left out) whose values this lowering may rely on: axes,
  // shapes and scales that decide a rank or a branch. A run with other values fails with a message.
  std::map<std::string, Tensor> input_values;
  std::map<std::string, Symbol> dims;           // by symbol name: min == max fixes it, else its range
  int64_t typical_batch = 1;                    // what schedules are made for where the inputs' first axis is open
  int64_t max_tensor_bytes = int64_t{1} << 36;  // larger constants and outputs are refused
  bool allow_code = false;                      // the operator `code`: C++ of the model is compiled and run
  std::vector<StateNames> states;               // what is handed from run to run (compiler/ops/states.h)
  std::string last_step_of;                     // an output whose last step becomes one more (Graph::last_step_of)
  int64_t max_nodes = 1'000'000;                // after inlining functions and subgraphs
};

// Throws CompileError naming file and node.
std::unique_ptr<Graph> lower_model(const Model& model, const LowerOptions& options);

// One reason why a model cannot be compiled, and what can be done. All but the message may be empty.
struct Finding : Diagnostic {
  std::string op_type, domain;  // of the node at fault
  int64_t opset = 0;            // of that domain, where the node stands
  std::vector<std::string>
      inputs;  // its operands: "float32[1, 3]"; "" is one left out; none where lowering did not come so far
  std::string advice;
};

// Every reason why the model cannot be compiled, at once: unknown operators, opsets, dtypes, structure (cycles, names
// defined twice or never). Empty: nothing found before lowering.
std::vector<Finding> check_model(const Model& model);

// What check_model() finds; where that is nothing, every node that cannot be lowered with these options. Nodes that read
// what such a node would make are not looked at.
std::vector<Finding> find_problems(const Model& model, const LowerOptions& options);

}  // namespace metac
