#include "compiler/ops/model_lowering.h"

namespace metac {

Lowering::Lowering(Graph& graph, const Node& node, int opset, std::vector<Var*> inputs, ModelLowering& model)
    : graph_(graph), node_(node), opset_(opset), inputs_(std::move(inputs)), outputs_(node.outputs.size()), model_(model) {}

Var* Lowering::input(size_t i) const {
  // Arity was checked, but an absent input may stand where a lowering needs one.
  if (i >= inputs_.size() || !inputs_[i]) fail("input ", i, " is missing");
  return inputs_[i];
}

Var* Lowering::optional_input(size_t i) const { return i < inputs_.size() ? inputs_[i] : nullptr; }

bool Lowering::wants_output(size_t i) const { return i < node_.outputs.size() && !node_.outputs[i].empty(); }

static const Attribute* find(const Node& node, const char* name) {
  auto found = node.attributes.find(name);
  return found == node.attributes.end() ? nullptr : &found->second;
}

bool Lowering::has(const char* name) const { return find(node_, name) != nullptr; }

int64_t Lowering::integer(const char* name, int64_t otherwise) const {
  const Attribute* a = find(node_, name);
  return a ? a->integer : otherwise;
}
double Lowering::real(const char* name, double otherwise) const {
  const Attribute* a = find(node_, name);
  return a ? a->real : otherwise;
}
std::string Lowering::string(const char* name, const std::string& otherwise) const {
  const Attribute* a = find(node_, name);
  return a ? a->string : otherwise;
}
std::vector<int64_t> Lowering::integers(const char* name, std::vector<int64_t> otherwise) const {
  const Attribute* a = find(node_, name);
  return a ? a->integers : otherwise;
}
std::vector<double> Lowering::reals(const char* name, std::vector<double> otherwise) const {
  const Attribute* a = find(node_, name);
  return a ? a->reals : otherwise;
}
std::vector<std::string> Lowering::strings(const char* name, std::vector<std::string> otherwise) const {
  const Attribute* a = find(node_, name);
  return a ? a->strings : otherwise;
}
const Tensor* Lowering::tensor(const char* name) const {
  const Attribute* a = find(node_, name);
  return a && !a->tensors.empty() ? &a->tensors[0] : nullptr;
}
const ModelGraph* Lowering::subgraph(const char* name) const {
  const Attribute* a = find(node_, name);
  return a && !a->graphs.empty() ? a->graphs[0].get() : nullptr;
}

const Sequence& Lowering::sequence(size_t i) const {
  const Var* var = input(i);
  if (!is_sequence(var)) fail("input ", i, " must be a sequence, it is a tensor");
  return model_.sequence_of(var);
}
Var* Lowering::keep_sequence(const Sequence& sequence) { return model_.keep_sequence(sequence); }
const Sequence& Lowering::sequence_of(const Var* var) const { return model_.sequence_of(var); }

void Lowering::set_output(size_t i, Var* var) {
  if (i < outputs_.size()) outputs_[i] = var;
}

void Lowering::lower_subgraph(const ModelGraph& subgraph, const std::vector<Var*>& params, Region& region) {
  model_.lower_subgraph(subgraph, params, region);
}
bool Lowering::takes_then() { return model_.takes_then(); }
std::optional<int> Lowering::declared_rank(size_t output) const { return model_.declared_rank(node_.outputs[output]); }
bool Lowering::allows_code() const { return model_.allows_code(); }
Var* Lowering::value_named(const std::string& name) const { return model_.value_named(name); }

std::vector<Var*> Lowering::inline_subgraph(const ModelGraph& subgraph, const std::vector<Var*>& arguments) {
  return model_.inline_subgraph(subgraph, arguments);
}

}  // namespace metac
