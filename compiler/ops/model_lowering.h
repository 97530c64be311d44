// Lowers the graphs of one Model, node by node, into one Graph: scopes of names, local functions, subgraphs. Used by
// lower_model() and, through Lowering, by the operators that own subgraphs.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/ops/control/sequences.h"
#include "compiler/ops/known_dims.h"
#include "compiler/ops/lower_model.h"
#include "compiler/ops/registry.h"

namespace metac {

// The branches of an If differ in rank, and data decides between them. Where that is the node being lowered, what follows it
// can be lowered in both branches.
struct BranchRanksDiffer : CompileError {
  using CompileError::CompileError;
};

class ModelLowering {
 public:
  // `choices`: what takes_then() answers, in the order of asking; true behind the last one. known: what a lowering of the
  // same model with the same choices told.
  ModelLowering(const Model& model, const LowerOptions& options, Graph& graph, std::vector<bool> choices = {},
                KnownDims known = {})
      : model_(model), options_(options), graph_(graph), choices_(std::move(choices)), known_(std::move(known)) {}

  // Inputs by the options, parameters, nodes, outputs: fills the Graph.
  void lower();
  // As lower(), but goes on behind nodes of the model's graph that cannot be lowered, and says what was found.
  std::vector<Finding> find_problems();

  // Lowers a subgraph into `region`: params bind its inputs in order, its outputs become region.results.
  void lower_subgraph(const ModelGraph& subgraph, const std::vector<Var*>& params, Region& region);
  // Lowers the subgraph's nodes where we stand.
  std::vector<Var*> inline_subgraph(const ModelGraph& subgraph, const std::vector<Var*>& arguments);
  // See Lowering::keep_sequence.
  Var* keep_sequence(const Sequence& sequence);
  const Sequence& sequence_of(const Var* var) const;
  bool allows_code() const { return options_.allow_code; }
  // See Lowering::takes_then.
  bool takes_then();
  const std::vector<bool>& choices() const { return choices_; }
  // The rank that the graph around the node being lowered declares for a value of that name; empty: it does not.
  std::optional<int> declared_rank(const std::string& name) const;
  // The value of that name as the node being lowered sees it; null if there is none.
  Var* value_named(const std::string& name) const;

 private:
  // The names visible in a graph; those of the graph around a subgraph are looked up through `outer`. A name may stand
  // for an absent optional input of a function (null).
  struct Scope {
    std::map<std::string, Var*> vars;
    const Scope* outer = nullptr;
  };
  // What the nodes of a function body see: their own opsets and the attributes of the call.
  struct Frame {
    const ModelFunction* function = nullptr;  // null: the model's graph
    const std::map<std::string, int64_t>* opsets = nullptr;
    std::map<std::string, Attribute> attributes;
    const Frame* caller = nullptr;
  };

  void lower_inputs(Scope& scope);
  void lower_outputs(const Scope& scope);
  void lower_initializers(const ModelGraph& graph, Scope& scope, bool are_parameters);
  // `results`: the names that are read behind the last node.
  void lower_nodes(const std::vector<Node>& nodes, Scope& scope, const std::vector<std::string>& results);
  void lower_rest_in_branches(const std::vector<Node>& nodes, size_t at, Scope& scope,
                              const std::vector<std::string>& results, const BranchRanksDiffer& reason);
  void lower_node(const Node& node, Scope& scope);
  void lower_operator(const Node& node, const std::vector<Var*>& inputs, Scope& scope);
  void lower_call(const ModelFunction& function, const Node& node, const std::vector<Var*>& inputs, Scope& scope);
  // `what`: "input "x"", "output "y"". Refuses dims below 0 and tensors beyond the limit, as far as dims are known.
  void check_size(const std::string& what, const Var* var) const;
  Node resolve_references(const Node& node) const;
  const ModelFunction* find_function(const Node& node) const;
  // How many nodes a call lowers at least: its body's and those of the functions that it calls, whatever subgraphs add;
  // counted before the first is lowered, since functions that call each other twice double with each of them.
  int64_t nodes_of(const ModelFunction& function, int depth = 0);
  std::string too_many_nodes() const;
  static bool look_up(const Scope& scope, const std::string& name, Var*& var);
  const std::map<std::string, int64_t>& opsets() const;
  void keep_finding(const Node& node, const Scope& scope, const Diagnostic& diagnostic);
  bool reads_unknown(const Node& node) const;

  const Model& model_;
  const LowerOptions& options_;
  Graph& graph_;
  std::vector<int> guessed_;          // symbols whose typical value nobody gave
  std::vector<int> guessed_lengths_;  // those of them that are lengths of sequences
  std::vector<bool> choices_;
  const KnownDims known_;
  size_t choices_made_ = 0;
  const ModelGraph* around_ = nullptr;  // the graph of the node being lowered; null in functions
  const Scope* scope_ = nullptr;        // of the node being lowered: subgraphs see it
  const Frame* frame_ = nullptr;
  std::deque<std::pair<Var, Sequence>> sequences_;  // Vars of no graph, each with what it stands for
  int64_t lowered_nodes_ = 0;
  std::map<const ModelFunction*, int64_t> nodes_of_;
  int depth_ = 0;      // of nested functions and subgraphs
  int top_node_ = -1;  // index of the model's node being lowered

  bool finding_ = false;           // find_problems() runs
  std::vector<Finding> findings_;  // while it does
  Finding latest_;                 // of a node that may stand in a branch which need not be taken
  std::set<std::string> unknown_;  // values of the model's graph that could not be lowered
};

// What takes_then() answers from one attempt at a model to the next: the latest choice that can still be another one is.
struct BranchChoices {
  std::vector<bool> taken;  // by the last attempt
  int attempts = 0;
  bool more = true;
  void take_others();
};

// The names of outer values that a subgraph reads, nested subgraphs included.
void outer_reads(const ModelGraph& graph, std::set<std::string>& reads, int depth = 0);
void for_each_subgraph(const Node& node, const std::function<void(const ModelGraph&)>& f);

// The checks of a node against its schema: opset, arity, attributes. Throws; used before lowering and by check_model().
void check_node(const Node& node, const OpSchema& schema, int64_t opset);
// "op Frobnicate (domain ai.onnx, opset 17) is not known ..."
std::string unknown_operator(const Node& node, int64_t opset);
std::string display_domain(const std::string& domain);  // "" -> "ai.onnx"

}  // namespace metac
