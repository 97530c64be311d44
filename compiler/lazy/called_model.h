// A model as a function of values: a call appends its nodes to the lazy graph.
#pragma once
#include <vector>

#include "compiler/lazy/lazy_graph.h"
#include "compiler/ops/model.h"

namespace metac::lazy {

class CalledModel {
 public:
  // Of nodes that have functions, without subgraphs; initialisers are literals where they are small, else data. Throws
  // CompileError naming what has no function.
  explicit CalledModel(const Model& model);
  ~CalledModel();
  CalledModel(const CalledModel&) = delete;
  CalledModel& operator=(const CalledModel&) = delete;

  size_t input_count() const { return inputs_; }
  size_t output_count() const { return outputs_.size(); }
  // Operands in the order of the model's inputs; a handle to each output.
  std::vector<Value*> call(LazyGraph& graph, const std::vector<Value*>& operands, Site site, bool no_grad) const;

 private:
  struct Step {
    const Operation* operation;
    std::vector<int> inputs;  // places of values; -1: left out
    uint32_t outputs;
  };
  size_t inputs_ = 0;
  std::vector<Value*> constants_;  // behind the inputs
  std::vector<Step> steps_;        // whose outputs stand behind those
  std::vector<int> outputs_;
};

}  // namespace metac::lazy
