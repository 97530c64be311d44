// The operator registry. An operator lives in one place: its schema, shape rule and lowering to meta-operators (or
// External) stand side by side in one compiler/ops file per family, registered by METAC_OPERATOR:
//
//   METAC_OPERATOR("Relu").since({1, 6, 13, 14}).inputs(1).outputs(1).lower([](Lowering& n) {
//     n.set_output(0, map(n.graph(), Fn::max, n.input(0), scalar(n.graph(), n.input(0)->dtype(), 0)));
//   });
//
// Lowering with symbolic dims is shape inference. No enum, no switch, no second registry.
#pragma once
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/builders.h"
#include "compiler/ops/model.h"
#include "compiler/support/diagnostic.h"

namespace metac {

class Lowering;
using LowerFunction = std::function<void(Lowering&)>;

struct AttributeSpec {
  std::string name;
  Attribute::Kind kind;
  bool required = false;
  int since = 1, until = 1 << 30;  // opsets [since, until) in which it exists
};

struct OpSchema {
  std::string name, domain;
  std::vector<int> since;              // the opsets that changed the operator; the last rules until the newest opset known
  int min_inputs = 0, max_inputs = 0;  // max < 0: any number
  int min_outputs = 1, max_outputs = 1;
  std::vector<AttributeSpec> attributes;
  std::vector<DType> not_yet;    // input dtypes that the lowering refuses by name
  bool takes_sequences = false;  // else an input that is a sequence is refused before `lower`
  double atol = 0;  // > 0: its sums cancel, so that `metac verify` compares with at least this absolute tolerance
  LowerFunction lower;
};

class OperatorBuilder {
 public:
  OperatorBuilder(const char* name, const char* domain = "");
  OperatorBuilder& since(std::initializer_list<int> opsets);
  OperatorBuilder& inputs(int min, int max);
  OperatorBuilder& inputs(int n) { return inputs(n, n); }
  OperatorBuilder& outputs(int min, int max);
  OperatorBuilder& outputs(int n) { return outputs(n, n); }
  OperatorBuilder& attribute(const char* name, Attribute::Kind kind, int since = 1, int until = 1 << 30);
  OperatorBuilder& required(const char* name, Attribute::Kind kind, int since = 1, int until = 1 << 30);
  OperatorBuilder& cancels(double atol);
  OperatorBuilder& takes_sequences();
  OperatorBuilder& lower(LowerFunction function);

 private:
  OpSchema* schema_;
};

#define METAC_CONCAT2(a, b) a##b
#define METAC_CONCAT(a, b) METAC_CONCAT2(a, b)
// Object files of static libraries that nothing refers to are dropped: the target compiler/ops is an OBJECT library.
#define METAC_OPERATOR(...) \
  static ::metac::OperatorBuilder METAC_CONCAT(operator_, __COUNTER__) = ::metac::OperatorBuilder(__VA_ARGS__)

constexpr int newest_opset = 28;

// Null when this build does not know the operator. All registered operators, sorted by domain and name.
const OpSchema* find_operator(const std::string& domain, const std::string& name);
std::vector<const OpSchema*> all_operators();

struct Sequence;  // compiler/ops/control/sequences.h

// Lowers whole model graphs (subgraphs of If, Loop, Scan); given to lowerings through Lowering.
class ModelLowering;

inline bool is_sequence(const Var* var) { return var && var->type.kind == TypeKind::sequence; }

// One node being lowered. Everything it throws is completed with the node and the file by the caller.
class Lowering {
 public:
  Lowering(Graph& graph, const Node& node, int opset, std::vector<Var*> inputs, ModelLowering& model);

  Graph& graph() { return graph_; }
  const Node& node() const { return node_; }
  int opset() const { return opset_; }  // of the node's domain
  size_t input_count() const { return inputs_.size(); }
  Var* input(size_t i) const;           // asserts presence
  Var* optional_input(size_t i) const;  // null if absent
  bool wants_output(size_t i) const;    // named in the node?
  size_t output_count() const { return node_.outputs.size(); }

  bool has(const char* attribute) const;
  int64_t integer(const char* name, int64_t otherwise) const;
  double real(const char* name, double otherwise) const;
  std::string string(const char* name, const std::string& otherwise) const;
  std::vector<int64_t> integers(const char* name, std::vector<int64_t> otherwise = {}) const;
  std::vector<double> reals(const char* name, std::vector<double> otherwise = {}) const;
  std::vector<std::string> strings(const char* name, std::vector<std::string> otherwise = {}) const;
  const Tensor* tensor(const char* name) const;        // null if absent
  const ModelGraph* subgraph(const char* name) const;  // null if absent

  // A branch must be taken while compiling, and either could be: then_branch unless the rest cannot be compiled with it.
  bool takes_then();
  // The rank that the model declares for an output; empty: it does not.
  std::optional<int> declared_rank(size_t output) const;

  // Did the user allow that C++ of the model is compiled and run?
  bool allows_code() const;

  // The value of that name where the node stands; null if there is none yet. For attributes that name values.
  Var* value_named(const std::string& name) const;

  // A sequence goes from node to node as a Var of kind `sequence`, which no op may use: this is what it stands for.
  const Sequence& sequence(size_t i) const;
  Var* keep_sequence(const Sequence& sequence);
  const Sequence& sequence_of(const Var* var) const;
  void set_sequence(size_t i, const Sequence& sequence) { set_output(i, keep_sequence(sequence)); }

  void set_output(size_t i, Var* var);
  const std::vector<Var*>& outputs() const { return outputs_; }

  // Lowers a subgraph into `region`: params bind the subgraph's inputs in order; its outputs become region.results.
  void lower_subgraph(const ModelGraph& subgraph, const std::vector<Var*>& params, Region& region);
  // Inline: lowers the subgraph's nodes into the current scope and returns its outputs.
  std::vector<Var*> inline_subgraph(const ModelGraph& subgraph, const std::vector<Var*>& arguments);

 private:
  Graph& graph_;
  const Node& node_;
  int opset_;
  std::vector<Var*> inputs_, outputs_;
  ModelLowering& model_;
};

}  // namespace metac
