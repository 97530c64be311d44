// Who makes and who reads each value of a model's main graph, and names that nobody has yet.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/ops/model.h"
#include "compiler/support/diagnostic.h"

namespace metac {

// Of the graph as it was given: it must stay as it is.
struct GraphUses {
  explicit GraphUses(const ModelGraph& graph);

  std::map<std::string, int> producer;              // the position of the node that makes it
  std::map<std::string, std::vector<int>> readers;  // positions, each once
  std::map<std::string, const Tensor*> constants;   // initialisers
  std::set<std::string> outputs;                    // of the graph
  std::set<std::string> read_by_bodies;             // by what stands in If, Loop and Scan

  const Tensor* constant(const std::string& name) const;
  // The constant with float32 elements of this name, if it is one that has any; else null.
  const Tensor* float_constant(const std::string& name) const;
  const std::vector<int>& readers_of(const std::string& name) const;
  // Nobody but nodes of the main graph reads it.
  bool stays_inside(const std::string& name) const { return !outputs.count(name) && !read_by_bodies.count(name); }
};

class FreshNames {
 public:
  explicit FreshNames(const Model& model);
  std::string operator()(const std::string& wanted);  // this name, or one with a number behind it

 private:
  void take(const ModelGraph& graph, int depth);
  std::set<std::string> taken_;
};

// f(), the model and the node added to its errors.
template <class F>
auto at_node(const Model& model, int i, F f) {
  try {
    return f();
  } catch (const CompileError& error) {
    if (!error.diagnostic.file.empty()) throw;
    throw CompileError({model.path, describe(model.graph.nodes[static_cast<size_t>(i)], i), error.diagnostic.message});
  }
}

// Tensors of Constant nodes become initialisers: weights are looked for there alone.
void constants_to_initializers(ModelGraph& graph);
// Initialisers that nothing reads go, with the inputs of their names and the types of values that nobody makes any more.
void remove_unread(ModelGraph& graph, const ModelGraph& before);

}  // namespace metac
