// Nodes, scopes, functions and subgraphs. Inputs and outputs of the model: lower_ports.cpp. The structure of the model
// (names, order, arity, attributes) was found good by check_model() before anything here runs.
#include "compiler/ops/lower_model.h"

#include <algorithm>
#include <set>

#include "compiler/ops/control/carried_loop.h"
#include "compiler/ops/model_lowering.h"
#include "compiler/ops/typical_lengths.h"
#include "compiler/support/checked.h"

namespace metac {
namespace {

constexpr int deepest_nesting = 100;

template <typename T>
class Restore {  // sets a variable for the length of a scope
 public:
  Restore(T& variable, T value) : variable_(variable), old_(variable) { variable = value; }
  ~Restore() { variable_ = old_; }
  Restore(const Restore&) = delete;

 private:
  T& variable_;
  T old_;
};

std::string byte_text(int64_t bytes) {
  static constexpr const char* units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
  int unit = 0;
  double value = static_cast<double>(bytes);
  while (value >= 1024 && unit < 5) value /= 1024, ++unit;
  std::ostringstream out;
  out.precision(4);
  out << value << " " << units[unit];
  return out.str();
}

std::vector<std::string> names_of(const std::vector<Value>& values) {
  std::vector<std::string> names;
  for (const Value& v : values) names.push_back(v.name);
  return names;
}

}  // namespace

bool ModelLowering::look_up(const Scope& scope, const std::string& name, Var*& var) {
  for (const Scope* s = &scope; s; s = s->outer) {
    auto found = s->vars.find(name);
    if (found == s->vars.end()) continue;
    var = found->second;
    return true;
  }
  return false;
}

Var* ModelLowering::value_named(const std::string& name) const {
  Var* var = nullptr;
  return scope_ && look_up(*scope_, name, var) ? var : nullptr;
}

std::string ModelLowering::too_many_nodes() const {
  return concat("the model has more than ", options_.max_nodes, " nodes after inlining functions and subgraphs");
}

int64_t ModelLowering::nodes_of(const ModelFunction& function, int depth) {
  if (depth >= deepest_nesting) return 0;                  // lower_call() refuses it
  auto [found, is_new] = nodes_of_.emplace(&function, 0);  // 0: a function that calls itself, which lower_call() refuses too
  if (!is_new) return found->second;
  int64_t nodes = 0;
  for (const Node& node : function.nodes) {
    const ModelFunction* called = find_function(node);
    nodes += 1 + (called ? nodes_of(*called, depth + 1) : 0);
    if (nodes > options_.max_nodes) break;
  }
  return found->second = nodes;
}

const ModelFunction* ModelLowering::find_function(const Node& node) const {
  for (const ModelFunction& f : model_.functions)
    if (f.name == node.op_type && f.domain == node.domain && f.overload == node.overload) return &f;
  return nullptr;
}

void ModelLowering::lower_initializers(const ModelGraph& graph, Scope& scope, bool are_parameters) {
  for (const Initializer& init : graph.initializers) {
    // Integers of a shape or an axis are structure, not weights: only what training could change is a parameter.
    bool parameter = are_parameters && is_float(init.tensor.dtype);
    Var* const constant = graph_.add_constant(init.tensor, init.name, parameter);
    scope.vars[init.name] = init.packed ? unpacked(graph_, constant, *init.packed) : constant;
  }
}

void ModelLowering::lower_nodes(const std::vector<Node>& nodes, Scope& scope, const std::vector<std::string>& results) {
  Restore inside(scope_, static_cast<const Scope*>(&scope));
  bool top = depth_ == 0;
  for (size_t k = 0; k < nodes.size(); ++k) {
    const Node& node = nodes[k];
    if (++lowered_nodes_ > options_.max_nodes)
      throw CompileError({model_.path, describe(node, static_cast<int>(k)), too_many_nodes()});
    if (top) {
      top_node_ = static_cast<int>(k);
      std::string name = !node.name.empty() ? node.name : node.outputs.empty() ? "" : node.outputs[0];
      graph_.set_origin({top_node_, name, node.op_type});
    }
    if (finding_ && top && reads_unknown(node)) {
      unknown_.insert(node.outputs.begin(), node.outputs.end());
      continue;
    }
    try {
      lower_node(node, scope);
    } catch (BranchRanksDiffer& e) {
      if (node.op_type != "If" || !e.diagnostic.node.empty()) throw;
      return lower_rest_in_branches(nodes, k, scope, results, e);
    } catch (CompileError& e) {
      const bool innermost = e.diagnostic.node.empty();
      const Diagnostic diagnostic =
          innermost ? Diagnostic{model_.path, describe(node, static_cast<int>(k)), e.diagnostic.message} : e.diagnostic;
      if (finding_ && innermost) keep_finding(node, scope, diagnostic);
      if (!finding_ || !top) throw CompileError(diagnostic);
      findings_.push_back(latest_);
      unknown_.insert(node.outputs.begin(), node.outputs.end());
    }
  }
}

// Attributes that refer to one of the surrounding function get the call's value; one that the call leaves out is absent.
Node ModelLowering::resolve_references(const Node& node) const {
  Node out = node;
  for (auto it = out.attributes.begin(); it != out.attributes.end();) {
    if (it->second.kind != Attribute::Kind::reference) {
      ++it;
      continue;
    }
    auto value = frame_->attributes.find(it->second.string);
    if (value == frame_->attributes.end()) {
      it = out.attributes.erase(it);
    } else {
      it->second = value->second;
      ++it;
    }
  }
  return out;
}

void ModelLowering::lower_node(const Node& node, Scope& scope) {
  std::vector<Var*> inputs;
  for (const std::string& name : node.inputs) {
    Var* var = nullptr;
    if (!name.empty() && !look_up(scope, name, var)) fail("input ", quoted(name), " is not produced by anything");
    inputs.push_back(var);
  }
  bool refers = std::any_of(node.attributes.begin(), node.attributes.end(),
                            [](const auto& a) { return a.second.kind == Attribute::Kind::reference; });
  Node resolved;
  if (refers) resolved = resolve_references(node);
  const Node& complete = refers ? resolved : node;
  if (const ModelFunction* function = find_function(node))
    lower_call(*function, complete, inputs, scope);
  else
    lower_operator(complete, inputs, scope);
}

const std::map<std::string, int64_t>& ModelLowering::opsets() const {
  return frame_ && frame_->opsets ? *frame_->opsets : model_.opset_imports;
}

void ModelLowering::lower_operator(const Node& node, const std::vector<Var*>& inputs, Scope& scope) {
  auto import = opsets().find(node.domain);
  if (import == opsets().end()) fail("the model imports no opset of domain ", display_domain(node.domain));
  const OpSchema* schema = find_operator(node.domain, node.op_type);
  if (!schema) fail(unknown_operator(node, import->second));
  check_node(node, *schema, import->second);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] && std::count(schema->not_yet.begin(), schema->not_yet.end(), inputs[i]->dtype()))
      fail("input ", i, " is ", name_of(inputs[i]->dtype()), ", which ", node.op_type, " does not support yet");
  for (size_t i = 0; i < inputs.size(); ++i)
    if (is_sequence(inputs[i]) && !schema->takes_sequences)
      fail("input ", i, " is a sequence, ", node.op_type, " takes tensors here");
  Lowering lowering(graph_, node, static_cast<int>(import->second), inputs, *this);
  schema->lower(lowering);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    Var* var = lowering.outputs()[i];
    if (!var) fail("output ", i, " (", quoted(node.outputs[i]), ") is not supported");
    if (!is_sequence(var)) check_size(concat("output ", quoted(node.outputs[i])), var);
    if (var->name.empty() && !var->constant) var->name = node.outputs[i];  // constants with a name are initialisers
    scope.vars[node.outputs[i]] = var;
  }
}

void ModelLowering::check_size(const std::string& what, const Var* var) const {
  int64_t bytes = static_cast<int64_t>(std::max<size_t>(size_of(var->dtype()), 1));
  bool too_large = false;
  for (Dim d : var->shape()) {
    const int64_t* extent = d.if_int();
    if (!extent) continue;
    if (*extent < 0) fail(what, " would have the shape ", to_string(var->shape()), ", with a negative dim");
  }
  if (std::any_of(var->shape().begin(), var->shape().end(), [](Dim d) { return d.is_int(0); })) return;
  for (Dim d : var->shape()) {
    if (!d.if_int()) continue;
    auto product = checked_mul(bytes, *d.if_int());
    too_large |= !product;
    if (product) bytes = *product;
  }
  if (too_large || bytes > options_.max_tensor_bytes)
    fail(what, " would be ", too_large ? "more than 8 EiB" : byte_text(bytes), " (shape ", to_string(var->shape()),
         "), the limit is ", byte_text(options_.max_tensor_bytes), " (--max-tensor-bytes)");
}

void ModelLowering::lower_call(const ModelFunction& function, const Node& node, const std::vector<Var*>& inputs,
                               Scope& scope) {
  for (const Frame* f = frame_; f; f = f->caller)
    if (f->function == &function)
      fail("recursive function ", quoted(function.name), ": it calls itself, directly or through another one");
  if (depth_ >= deepest_nesting) fail("functions and subgraphs nest deeper than ", deepest_nesting);
  if (lowered_nodes_ + nodes_of(function) > options_.max_nodes) fail(too_many_nodes());
  if (inputs.size() > function.inputs.size())
    fail("function ", quoted(function.name), " takes ", function.inputs.size(), " inputs, the call gives ", inputs.size());
  if (node.outputs.size() > function.outputs.size())
    fail("function ", quoted(function.name), " has ", function.outputs.size(), " outputs, the call wants ",
         node.outputs.size());
  Frame frame{&function, &function.opset_imports, function.attribute_defaults, frame_};
  for (const auto& [name, value] : node.attributes) {
    bool known =
        function.attribute_defaults.count(name) || std::count(function.attributes.begin(), function.attributes.end(), name);
    if (!known) fail("function ", quoted(function.name), " has no attribute ", quoted(name));
    frame.attributes[name] = value;
  }
  Scope body;
  for (size_t i = 0; i < function.inputs.size(); ++i)
    body.vars[function.inputs[i]] = i < inputs.size() ? inputs[i] : nullptr;
  {
    Restore deeper(depth_, depth_ + 1);
    Restore in_function(frame_, static_cast<const Frame*>(&frame));
    Restore in_no_graph(around_, static_cast<const ModelGraph*>(nullptr));
    lower_nodes(function.nodes, body, function.outputs);
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    Var* var = nullptr;
    if (!look_up(body, function.outputs[i], var) || !var)
      fail("output ", quoted(function.outputs[i]), " of function ", quoted(function.name), " is not produced by anything");
    scope.vars[node.outputs[i]] = var;
  }
}

std::vector<Var*> ModelLowering::inline_subgraph(const ModelGraph& subgraph, const std::vector<Var*>& arguments) {
  if (arguments.size() != subgraph.inputs.size())
    fail("the subgraph ", quoted(subgraph.name), " takes ", subgraph.inputs.size(), " inputs, it is given ",
         arguments.size());
  if (depth_ >= deepest_nesting) fail("functions and subgraphs nest deeper than ", deepest_nesting);
  Scope scope;
  scope.outer = scope_;
  // Parameters inside a subgraph have names of their own; they are plain constants.
  lower_initializers(subgraph, scope, false);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Value& declared = subgraph.inputs[i];
    if (declared.type.dtype && arguments[i] && !is_sequence(arguments[i]) && *declared.type.dtype != arguments[i]->dtype())
      fail("input ", quoted(declared.name), " of the subgraph is declared ", name_of(*declared.type.dtype), " and gets ",
           name_of(arguments[i]->dtype()));
    scope.vars[declared.name] = arguments[i];
  }
  {
    Restore deeper(depth_, depth_ + 1);
    Restore in_subgraph(around_, &subgraph);
    lower_nodes(subgraph.nodes, scope, names_of(subgraph.outputs));
  }
  std::vector<Var*> results;
  for (const Value& output : subgraph.outputs) {
    Var* var = nullptr;
    if (!look_up(scope, output.name, var) || !var)
      fail("output ", quoted(output.name), " of the subgraph is not produced by anything");
    results.push_back(var);
  }
  return results;
}

Var* ModelLowering::keep_sequence(const Sequence& sequence) {
  Var handle;
  handle.type = {TypeKind::sequence, sequence.dtype, {}};
  return &sequences_.emplace_back(handle, sequence).first;
}

const Sequence& ModelLowering::sequence_of(const Var* var) const {
  auto found = std::find_if(sequences_.begin(), sequences_.end(), [&](const auto& kept) { return &kept.first == var; });
  METAC_ASSERT(found != sequences_.end(), "a sequence that nobody keeps");
  return found->second;
}

void ModelLowering::lower_subgraph(const ModelGraph& subgraph, const std::vector<Var*>& params, Region& region) {
  region.params = params;
  OpenRegion open(graph_, region);
  region.results = inline_subgraph(subgraph, params);
  for (const Var* result : region.results)
    if (is_sequence(result))
      fail("a subgraph that may or may not run gives a sequence, which must be resolved while compiling");
}

void ModelLowering::lower() {
  Scope scope;
  lower_initializers(model_.graph, scope, true);
  lower_inputs(scope);
  around_ = &model_.graph;
  lower_nodes(model_.graph.nodes, scope, names_of(model_.graph.outputs));
  graph_.set_origin({});
  lower_outputs(scope);
  choose_typical_lengths(graph_, guessed_lengths_);
  choose_matching_lengths(graph_, guessed_);
}

// The same graph where nothing more is known; else one that is made with what the requirements of the one before say.
static std::unique_ptr<Graph> lowered_with_known_dims(const Model& model, const LowerOptions& options,
                                                      std::unique_ptr<Graph> graph, const std::vector<bool>& choices) {
  constexpr int most_rounds = 4;  // what one round knows, another requirement says more by
  KnownDims known;
  for (int round = 0; round < most_rounds; ++round) {
    KnownDims more = infer_known_dims(*graph, known);
    if (more == known) break;
    known = std::move(more);
    auto again = std::make_unique<Graph>();
    try {
      ModelLowering(model, options, *again, choices, known).lower();
    } catch (const CompileError&) {
      break;  // no size meets all requirements: each run says which one it does not
    }
    graph = std::move(again);
  }
  return graph;
}

std::unique_ptr<Graph> lower_model(const Model& model, const LowerOptions& options) {
  std::vector<Finding> problems = check_model(model);
  if (problems.size() == 1) throw CompileError(problems[0]);
  if (!problems.empty()) {
    constexpr size_t most = 20;
    std::string all = concat(problems.size(), " problems");
    for (size_t k = 0; k < std::min(problems.size(), most); ++k) {
      Diagnostic d = problems[k];
      d.file.clear();
      all += "\n  " + d.text();
    }
    if (problems.size() > most) all += concat("\n  and ", problems.size() - most, " more (metac check lists them all)");
    throw CompileError({model.path, "", all});
  }
  std::optional<CompileError> first;
  for (BranchChoices choices; choices.more; choices.take_others()) {
    auto graph = std::make_unique<Graph>();
    ModelLowering lowering(model, options, *graph, choices.taken);
    try {
      lowering.lower();
      return lowered_with_known_dims(model, options, std::move(graph), lowering.choices());
    } catch (CompileError& e) {
      const Diagnostic& d = e.diagnostic;
      if (!first) first.emplace(d.file.empty() ? Diagnostic{model.path, d.node, d.message} : d);
      choices.taken = lowering.choices();
    }
  }
  throw *first;
}

}  // namespace metac
