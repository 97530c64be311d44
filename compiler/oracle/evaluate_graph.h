// The reference evaluator: runs a Graph on host tensors as its definition says, one op at a time, in the order of the
// graph. It folds small constants at compile time and is the oracle of tests. It knows nothing of schedules; the one
// thing it does for speed is that a Var with a single consumer is computed inside that consumer, so that a convolution
// written as reindex, multiply and sum never makes its seven-dimensional product.
//
// Sums and products of floats accumulate in double and are rounded once, so a compiled kernel may differ from the
// evaluator by its own rounding only.
#pragma once
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace metac {

// Exceeded: CompileError naming the limit.
struct Budget {
  int64_t operations = std::numeric_limits<int64_t>::max();  // scalar operations
  int64_t bytes = std::numeric_limits<int64_t>::max();       // of all tensors made
};

// The graph's outputs. Inputs by name or in the order of graph.inputs; dtypes, ranks, constant dims and requirements are
// checked (CompileError naming input and values).
std::vector<Tensor> evaluate(const Graph& graph, const std::map<std::string, Tensor>& inputs, Budget budget = {});
std::vector<Tensor> evaluate(const Graph& graph, const std::vector<Tensor>& inputs, Budget budget = {});

class CompiledGraph;

// Runs one graph many times: what was compiled for the first run serves the later ones.
class GraphEvaluator {
 public:
  explicit GraphEvaluator(const Graph& graph);
  ~GraphEvaluator();
  std::vector<Tensor> run(const std::vector<Tensor>& inputs, Budget budget = {});

 private:
  friend std::optional<std::vector<Tensor>> evaluate_op(const Graph&, const Op&, const std::vector<const Tensor*>&, Budget&);
  GraphEvaluator(const Graph& graph, std::nullptr_t);  // for single ops: nothing is analysed
  std::optional<std::vector<Tensor>> run_one(const Op& op, const std::vector<const Tensor*>& inputs, Budget& budget);
  class Run;
  const Graph& graph_;
  std::unique_ptr<CompiledGraph> compiled_;
};

// For constant folding: the outputs of one op given the tensors of its inputs (null where the op has none); takes what it
// spent off the budget. Empty where the budget does not allow it, the op depends on a symbol, or it is no plain op.
std::optional<std::vector<Tensor>> evaluate_op(const Graph& graph, const Op& op, const std::vector<const Tensor*>& inputs,
                                               Budget& budget);

}  // namespace metac
