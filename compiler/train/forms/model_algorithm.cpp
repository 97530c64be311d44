#include "compiler/train/forms/model_algorithm.h"

#include <algorithm>
#include <set>

#include "compiler/ir/expr_table.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/nearest_name.h"
#include "compiler/train/batch_fields.h"
#include "compiler/train/parameters.h"

namespace metac {
namespace {

using train::Source;
using train::StateRole;

class AlgorithmBuilder {
 public:
  AlgorithmBuilder(const Model& model, const TrainingInfo& info, const Recipe& recipe, const LowerOptions& lower,
                   const RunOnce& run)
      : original_(model), info_(info), r_(recipe), lower_(lower), run_(run) {}

  TrainingModel build() {
    merge();
    take_scalars();
    BatchFields fields(merged_, r_, lower_);
    out_.step = fields.with_fixed_inputs();
    out_.step.graph.name = "step";
    out_.fields = fields.fields();
    out_.step_inputs = fields.ports(out_.step);
    for (const Value& scalar : scalars_) {
      out_.step.graph.inputs.push_back(scalar);
      out_.step_inputs.push_back({r_.algorithm->scalars.at(scalar.name), 0});
    }
    const std::map<std::string, Tensor> initial = initial_values();
    for (const auto& [key, value] : info_.update_bindings) add_state(key, initial);
    add_outputs();
    check();
    out_.loss = loss_;
    out_.optimiser = r_.optimiser.kind;
    make_evaluation();
    out_.notes.push_back(concat("the model's own algorithm updates ", out_.states.size(),
                                " of its values; its loss is evaluated batch by batch"));
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(const std::string& message) const {
    throw CompileError({original_.path, "training info", message});
  }

  // ONNX: the training graph is the concatenation of the network's lists and the algorithm's.
  void merge() {
    merged_ = original_;
    ModelGraph& to = merged_.graph;
    const ModelGraph& from = info_.algorithm;
    std::set<std::string> inputs, initializers;
    for (const Value& v : to.inputs) inputs.insert(v.name);
    for (const Initializer& i : to.initializers) initializers.insert(i.name);
    for (const Initializer& i : from.initializers)
      if (initializers.insert(i.name).second) to.initializers.push_back(i);
    for (const Value& v : from.inputs)
      if (inputs.insert(v.name).second && !initializers.count(v.name)) to.inputs.push_back(v);
    to.nodes.insert(to.nodes.end(), from.nodes.begin(), from.nodes.end());
    to.outputs = from.outputs;
    merged_.opset_imports.emplace("ai.onnx.preview.training", 1);
  }

  void take_scalars() {
    auto& inputs = merged_.graph.inputs;
    for (const auto& [name, source] : r_.algorithm->scalars) {
      auto found = std::find_if(inputs.begin(), inputs.end(), [&, &name = name](const Value& v) { return v.name == name; });
      if (found == inputs.end())
        throw CompileError({r_.algorithm->scalars_place, "", concat("the algorithm has no input ", quoted(name))});
      const bool is_rate = source == Source::learning_rate;
      const DType dtype = found->type.dtype.value_or(DType::string);
      if (!found->type.shape || !found->type.shape->empty() ||
          (is_rate ? dtype != DType::f32 && dtype != DType::f64 : dtype != DType::i64))
        throw CompileError(
            {r_.algorithm->scalars_place, "",
             concat("input ", quoted(name), " must be ", is_rate ? "a float32 or float64" : "an int64", " scalar")});
      scalars_.push_back(*found);
      inputs.erase(found);
    }
  }

  std::map<std::string, Tensor> initial_values() const {
    std::map<std::string, Tensor> values;
    for (const Initializer& i : merged_.graph.initializers) values[i.name] = i.tensor;
    if (info_.initialization_bindings.empty()) return values;
    Model begin = original_;
    begin.graph = info_.initialization;
    begin.path = original_.path + " (initialization)";
    const std::map<std::string, Tensor> outputs = run_(begin);
    for (const auto& [key, value] : info_.initialization_bindings) {
      auto found = outputs.find(value);
      if (found == outputs.end())
        refuse(concat("the initialization has no output ", quoted(value), ", to which ", quoted(key), " is bound"));
      auto old = values.find(key);
      if (old == values.end()) refuse(concat("initialization binds ", quoted(key), ", which is no initialiser"));
      if (old->second.dtype != found->second.dtype || old->second.shape != found->second.shape)
        refuse(concat("the initial value of ", quoted(key), " is ", name_of(found->second.dtype), " ",
                      to_string(found->second.shape), ", the initialiser is ", name_of(old->second.dtype), " ",
                      to_string(old->second.shape)));
      old->second = found->second;
    }
    return values;
  }

  void add_state(const std::string& name, const std::map<std::string, Tensor>& initial) {
    auto value = initial.find(name);
    if (value == initial.end()) refuse(concat("an update is bound to ", quoted(name), ", which is no initialiser"));
    TrainingState state{name, value->second, StateRole::optimiser, -1, -1};
    const auto& own = original_.graph.initializers;
    for (size_t k = 0; k < own.size(); ++k)
      if (own[k].name == name) state.initializer = static_cast<int>(k), state.role = StateRole::parameter;
    if (!is_float(state.initial.dtype)) state.role = StateRole::counter;
    auto& initializers = out_.step.graph.initializers;
    initializers.erase(
        std::remove_if(initializers.begin(), initializers.end(), [&](const Initializer& i) { return i.name == name; }),
        initializers.end());
    NodeWriter(out_.step).add_input(name, state.initial.dtype, state.initial.shape);
    out_.step_inputs.push_back({Source::state, static_cast<int>(out_.states.size())});
    out_.states.push_back(std::move(state));
  }

  void add_outputs() {
    std::set<std::string> bound;
    for (const auto& [key, value] : info_.update_bindings) bound.insert(value);
    loss_ = r_.algorithm->loss;
    std::vector<std::string> names;
    for (const Value& output : info_.algorithm.outputs) names.push_back(output.name);
    if (loss_.empty())
      for (const std::string& name : names)
        if (loss_.empty() && !bound.count(name)) loss_ = name;
    if (loss_.empty() || !std::count(names.begin(), names.end(), loss_))
      throw CompileError({r_.algorithm->place, "",
                          concat("the algorithm has no output ",
                                 loss_.empty() ? "that could be the loss: all are bound to states" : quoted(loss_),
                                 suggestion(loss_, names))});
    out_.step.graph.outputs = {Value{loss_, {}}};
    out_.step_outputs = {{Source::loss, 0}};
    for (size_t k = 0; k < info_.update_bindings.size(); ++k) {
      out_.step.graph.outputs.push_back(Value{info_.update_bindings[k].second, {}});
      out_.step_outputs.push_back({Source::state, static_cast<int>(k)});
    }
    const std::set<std::string> read = values_behind(out_.step.graph, [&] {
      std::vector<std::string> all;
      for (const Value& v : out_.step.graph.outputs) all.push_back(v.name);
      return all;
    }());
    remove_unread(out_.step.graph, read);
  }

  static void remove_unread(ModelGraph& graph, const std::set<std::string>& read) {
    auto& nodes = graph.nodes;
    auto unread = [&](const Node& node) {
      return std::none_of(node.outputs.begin(), node.outputs.end(), [&](const std::string& o) { return read.count(o) > 0; });
    };
    nodes.erase(std::remove_if(nodes.begin(), nodes.end(), unread), nodes.end());
  }

  // What the step computes for its loss, and that loss at every sample.
  void make_evaluation() {
    Model& m = out_.evaluate;
    m = out_.step;
    m.graph.name = "evaluate";
    const std::set<std::string> read = values_behind(m.graph, {loss_});
    remove_unread(m.graph, read);
    m.graph.inputs.clear();
    for (size_t k = 0; k < out_.step_inputs.size(); ++k)
      if (read.count(out_.step.graph.inputs[k].name)) {
        m.graph.inputs.push_back(out_.step.graph.inputs[k]);
        out_.evaluate_inputs.push_back(out_.step_inputs[k]);
      }
    m.graph.outputs.clear();
    NodeWriter write(m);
    const std::string each = write.elementwise({loss_}, "@0", "train/loss/sample");
    m.graph.nodes.back().attributes["shape"] = strings_attribute({std::to_string(r_.batch)});
    write.add_output(each);
    out_.evaluate_outputs = {{Source::loss, 0}};
    out_.evaluates_batches = true;
    out_.alone = "its algorithm is the model's own";
  }

  // The loss is one number, and every state is followed by a value of its type.
  void check() {
    if (const std::vector<Finding> findings = check_model(out_.step); !findings.empty()) throw CompileError(findings[0]);
    const ExprScope scope;
    std::unique_ptr<Graph> graph = lower_model(out_.step, LowerOptions{.allow_code = lower_.allow_code});
    const Var* loss = graph->outputs.at(0);
    if (loss->rank() != 0 || (loss->dtype() != DType::f32 && loss->dtype() != DType::f64))
      throw CompileError({r_.algorithm->place, "",
                          concat("the loss ", quoted(loss_), " is ", name_of(loss->dtype()), " of shape ",
                                 to_string(loss->shape()), ", not a float scalar")});
    out_.loss_dtype = loss->dtype();
    for (size_t k = 0; k < out_.states.size(); ++k) {
      const Var* next = graph->outputs.at(k + 1);
      if (next->dtype() != out_.states[k].initial.dtype || next->shape() != shape_of(out_.states[k].initial.shape))
        refuse(concat("the update of ", quoted(out_.states[k].name), " is ", name_of(next->dtype()), " of shape ",
                      to_string(next->shape()), ", the initialiser is ", name_of(out_.states[k].initial.dtype), " ",
                      to_string(out_.states[k].initial.shape)));
    }
  }

  const Model& original_;
  const TrainingInfo& info_;
  const Recipe& r_;
  const LowerOptions& lower_;
  const RunOnce& run_;
  Model merged_;
  std::vector<Value> scalars_;
  std::string loss_;
  TrainingModel out_;
};

}  // namespace

TrainingModel training_model_of_algorithm(const Model& model, const TrainingInfo& info, const Recipe& recipe,
                                          const LowerOptions& lower, const RunOnce& run) {
  return AlgorithmBuilder(model, info, recipe, lower, run).build();
}

}  // namespace metac
