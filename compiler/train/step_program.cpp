#include "compiler/train/step_program.h"

#include <algorithm>
#include <cstring>

#include "compiler/ir/expr_table.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/nearest_name.h"
#include "compiler/train/forms/exported_parameters.h"
#include "compiler/train/forms/training_form.h"
#include "compiler/train/join_networks.h"
#include "compiler/train/node_writer.h"
#include "compiler/train/optimisers.h"
#include "compiler/train/parameters.h"

namespace metac {
namespace {

using train::Source;
using train::StateRole;

constexpr const char* seed_name = "seed";
constexpr const char* call_name = "call";

// One step while it is made.
struct Part {
  const StepRecipe& recipe;
  Model model;
  TrainingForm form;
  ParameterChoice choice;
  std::vector<TrainingPort> inputs, outputs;  // of the model's
  std::map<int, std::string> next;            // state -> the value that it becomes
};

class StepBuilder {
 public:
  StepBuilder(const Model& model, const std::map<std::string, Model>& networks, const Recipe& recipe,
              const LowerOptions& lower)
      : original_(model), r_(recipe), lower_(lower) {
    networks_["model"] = &model;
    for (const auto& [name, network] : networks) networks_[name] = &network;
    for (const DeclaredField& field : r_.fields) out_.fields.push_back({field.name, field.dtype, field.shape});
  }

  TrainingModel run() {
    for (const StepRecipe& step : r_.steps)
      parts_.push_back({step, join_networks(step, networks_, r_.path), {}, {}, {}, {}, {}});
    for (const KeptRecipe& kept : r_.states)
      add_state(kept.name, filled_tensor(kept.dtype, kept.shape, kept.value), StateRole::kept);
    for (Part& part : parts_) prepare(part);
    for (Part& part : parts_) write(part);
    for (Part& part : parts_) check(part);
    hand_over();
    return std::move(out_);
  }

 private:
  [[noreturn]] static void refuse(const Place& place, const std::string& message) {
    throw CompileError({place, "", message});
  }

  int find_state(const std::string& name) const {
    for (size_t k = 0; k < out_.states.size(); ++k)
      if (out_.states[k].name == name) return static_cast<int>(k);
    return -1;
  }
  int add_state(const std::string& name, Tensor initial, StateRole role) {
    if (const int known = find_state(name); known >= 0) return known;
    int initializer = -1;
    for (size_t k = 0; k < original_.graph.initializers.size(); ++k)
      if ((role == StateRole::parameter || role == StateRole::statistic) && original_.graph.initializers[k].name == name)
        initializer = static_cast<int>(k);
    out_.states.push_back({name, std::move(initial), role, -1, initializer});
    return static_cast<int>(out_.states.size()) - 1;
  }

  // ---- what a step reads, and what it trains ----
  void prepare(Part& part) {
    add_read_inputs(part);
    part.model.graph.outputs = {Value{part.recipe.loss, {}}};
    for (const auto& [state, from] : part.recipe.keep) part.model.graph.outputs.push_back(Value{from, {}});
    if (const std::vector<Finding> findings = check_model(part.model); !findings.empty()) throw CompileError(findings[0]);
    const Model before = part.model;
    std::vector<std::string> outputs;
    for (const Value& output : before.graph.outputs) outputs.push_back(output.name);
    const std::set<std::string> read = values_behind(before.graph, outputs);
    const std::set<int> statistics = running_statistics(before);
    part.form = put_into_training_form(part.model, r_, read, seed_name, call_name,
                                       [&](const std::vector<std::string>& names) { return types_of(before, names); });
    if (part.form.random)
      for (const char* name : {seed_name, call_name}) add_scalar(part, name);
    Recipe own = r_;
    own.path = concat(part.recipe.place, ": step ", quoted(part.recipe.name));
    own.optimiser = part.recipe.optimiser;
    part.choice = choose_parameters(part.model, own, trained_names(part), statistics);
    for (const TrainedParameter& p : part.choice.trained)
      add_state(initializer(part, p.initializer).name, initializer(part, p.initializer).tensor, StateRole::parameter);
    for (const RunningStatistic& s : part.form.statistics)
      add_state(initializer(part, s.initializer).name, initializer(part, s.initializer).tensor, StateRole::statistic);
    for (const std::string& note : part.choice.notes)
      out_.notes.push_back(concat("step ", quoted(part.recipe.name), ": ", note));
    for (const std::string& note : part.form.notes)
      out_.notes.push_back(concat("step ", quoted(part.recipe.name), ": ", note));
  }

  static const Initializer& initializer(const Part& part, int k) {
    return part.model.graph.initializers[static_cast<size_t>(k)];
  }

  // Parameters of the networks that the step trains, which its loss depends on. Throws where one is not what it was before
  // it was exported.
  std::set<std::string> trained_names(const Part& part) const {
    std::set<std::string> names;
    const std::set<std::string> read = values_behind(part.model.graph, {part.recipe.loss});
    for (const std::string& network : part.recipe.trains) {
      const Model& model = *networks_.at(network);
      const std::map<std::string, bool> roles = exported_roles(model.graph);
      const std::set<int> statistics = running_statistics(model);
      std::set<int> own;
      for (size_t k = 0; k < model.graph.initializers.size(); ++k) {
        const Initializer& i = model.graph.initializers[k];
        const auto role = roles.find(i.name);
        const std::string name = parameter_name(network, i.name);
        if (!is_float(i.tensor.dtype) || !read.count(name) || (role != roles.end() && !role->second)) continue;
        names.insert(name);
        if (!i.tensor.shape.empty() && !statistics.count(static_cast<int>(k))) own.insert(static_cast<int>(k));
      }
      require_known_parameters(model, r_, own);
    }
    return names;
  }

  // Fields, states, the seed and the number of the call are read by their names.
  void add_read_inputs(Part& part) {
    ModelGraph& graph = part.model.graph;
    std::set<std::string> made, read;
    for (const Initializer& i : graph.initializers) made.insert(i.name);
    for (const Node& node : graph.nodes) made.insert(node.outputs.begin(), node.outputs.end());
    std::vector<std::string> ends = {part.recipe.loss}, known = {seed_name, call_name};
    for (const Node& node : graph.nodes) ends.insert(ends.end(), node.outputs.begin(), node.outputs.end());
    for (const auto& [state, from] : part.recipe.keep) ends.push_back(from);
    read = values_behind(graph, ends);
    NodeWriter write(part.model);
    for (size_t k = 0; k < out_.fields.size(); ++k) {
      const TrainingField& field = out_.fields[k];
      known.push_back(field.name);
      if (made.count(field.name))
        refuse(part.recipe.place, concat("step ", quoted(part.recipe.name), " computes ", quoted(field.name),
                                         ", which is a field of the samples"));
      if (!read.count(field.name)) continue;
      std::vector<int64_t> shape = {r_.batch};
      shape.insert(shape.end(), field.shape.begin(), field.shape.end());
      write.add_input(field.name, field.dtype, shape);
      part.inputs.push_back({Source::data, static_cast<int>(k)});
    }
    for (const KeptRecipe& kept : r_.states) {
      known.push_back(kept.name);
      if (made.count(kept.name))
        refuse(part.recipe.place,
               concat("step ", quoted(part.recipe.name), " computes ", quoted(kept.name), ", which is a state"));
      if (!read.count(kept.name)) continue;
      write.add_input(kept.name, kept.dtype, kept.shape);
      part.inputs.push_back({Source::state, find_state(kept.name)});
    }
    for (const char* name : {seed_name, call_name})
      if (read.count(name) && !made.count(name)) add_scalar(part, name);
    known.insert(known.end(), made.begin(), made.end());
    auto is_there = [&](const std::string& name) {
      return name.empty() || made.count(name) ||
             std::any_of(graph.inputs.begin(), graph.inputs.end(), [&](const Value& v) { return v.name == name; });
    };
    auto expect = [&](const std::string& name, const Place& place, const std::string& what) {
      if (!is_there(name))
        refuse(place, concat("step ", quoted(part.recipe.name), ": ", what, " ", quoted(name),
                             " is no value of the step, no field and no state", suggestion(name, known)));
    };
    for (const Node& node : part.recipe.graph.nodes)
      for (const std::string& input : node.inputs) expect(input, part.recipe.place, concat("line ", node.line, ":"));
    expect(part.recipe.loss, part.recipe.loss_place, "the loss");
    for (const auto& [state, from] : part.recipe.keep)
      expect(from, part.recipe.keep_place, concat("what ", quoted(state), " keeps,"));
  }

  // Of all losses: that of the first.
  DType loss_dtype() const { return types_of(parts_[0].model, {parts_[0].recipe.loss})[0].dtype; }

  void add_scalar(Part& part, const char* name) {
    for (const Value& v : part.model.graph.inputs)
      if (v.name == name) return;
    NodeWriter(part.model).add_input(name, DType::i64, {});
    part.inputs.push_back({std::strcmp(name, seed_name) == 0 ? Source::seed : Source::call, 0});
  }

  std::vector<TypedShape> types_of(const Model& model, const std::vector<std::string>& names) const {
    Model probe = model;
    probe.graph.outputs.clear();
    for (const std::string& name : names) probe.graph.outputs.push_back(Value{name, {}});
    const ExprScope scope;
    std::unique_ptr<Graph> graph = lower_model(probe, LowerOptions{.allow_code = lower_.allow_code});
    std::vector<TypedShape> types;
    for (size_t k = 0; k < names.size(); ++k) {
      const Var* var = graph->outputs.at(k);
      if (!is_static(var->shape()))
        refuse(r_.path, concat("the value ", quoted(names[k]), " has the shape ", to_string(var->shape()),
                               ", which is not known when compiling"));
      types.push_back({var->dtype(), static_shape(var->shape())});
    }
    return types;
  }

  // ---- derivatives and updates ----
  void write(Part& part) {
    Model& m = part.model;
    NodeWriter write(m);
    std::vector<std::string> names;
    for (const TrainedParameter& p : part.choice.trained) names.push_back(initializer(part, p.initializer).name);
    std::vector<std::string> gradients = write.gradient(part.recipe.loss, names);
    for (size_t k = 0; k < gradients.size(); ++k)
      gradients[k] = write.exchange(gradients[k], find_state(names[k]), gradients[k] + "/mean");
    const std::string rate = write.fresh("train/learning_rate"), step = write.fresh("train/step");
    write.add_input(rate, DType::f64, {});
    part.inputs.push_back({Source::learning_rate, 0});
    write.add_input(step, DType::i64, {});
    part.inputs.push_back({Source::step, 0});
    OptimiserWriter optimiser(write, part.recipe.optimiser, rate, step);
    const double first = r_.optimiser["learning_rate"],
                 ratio = first > 0 ? part.recipe.optimiser["learning_rate"] / first : 1;
    const std::vector<std::string> slots = slots_of(part.recipe.optimiser);
    std::vector<int> own;
    for (size_t k = 0; k < names.size(); ++k) {
      const int state = find_state(names[k]);
      const Tensor initial = out_.states[static_cast<size_t>(state)].initial;
      ParameterUpdate update{names[k], gradients[k], initial.dtype, part.choice.trained[k].weight_decay, ratio, {}};
      std::vector<int> kept;
      for (const std::string& slot : slots) {
        update.slots.push_back(concat(names[k], "/", part.recipe.name, "/", slot));
        kept.push_back(add_state(update.slots.back(),
                                 filled_tensor(initial.dtype, initial.shape, initial_slot(part.recipe.optimiser)),
                                 StateRole::optimiser));
        write.add_input(update.slots.back(), initial.dtype, initial.shape);
        part.inputs.push_back({Source::state, kept.back()});
      }
      const NextValues next = optimiser.update(update);
      part.next[state] = next.parameter;
      for (size_t s = 0; s < kept.size(); ++s) part.next[kept[s]] = next.slots[s];
    }
    for (const RunningStatistic& s : part.form.statistics) {
      const int state = find_state(initializer(part, s.initializer).name);
      part.next[state] = write.exchange(s.next, state, s.next + "/mean");
    }
    for (const auto& [state, from] : part.recipe.keep) part.next[find_state(state)] = from;
    finish(part, write);
  }

  // States among the initialisers become inputs, the next values outputs; what nothing reads goes.
  void finish(Part& part, NodeWriter& write) {
    Model& m = part.model;
    m.graph.outputs.clear();
    const bool is_first = &part == &parts_[0];
    std::vector<std::string> outputs = {is_first ? part.recipe.loss
                                                 : write.cast(part.recipe.loss, loss_dtype(), "train/loss")};
    part.outputs = {is_first ? TrainingPort{Source::loss, 0}
                             : TrainingPort{Source::metric, static_cast<int>(&part - &parts_[0]) - 1}};
    for (const auto& [state, value] : part.next) {
      outputs.push_back(value);
      part.outputs.push_back({Source::state, state});
    }
    for (const std::string& output : outputs) write.add_output(output);
    const std::set<std::string> read = values_behind(m.graph, outputs);
    auto& nodes = m.graph.nodes;
    nodes.erase(std::remove_if(nodes.begin(), nodes.end(),
                               [&](const Node& n) {
                                 return std::none_of(n.outputs.begin(), n.outputs.end(),
                                                     [&](const std::string& o) { return read.count(o) > 0; });
                               }),
                nodes.end());
    std::vector<Initializer> kept;
    for (Initializer& i : m.graph.initializers) {
      if (!read.count(i.name)) continue;
      const int state = find_state(i.name);
      if (state < 0) {
        kept.push_back(std::move(i));
        continue;
      }
      write.add_input(i.name, i.tensor.dtype, i.tensor.shape);
      part.inputs.push_back({Source::state, state});
    }
    m.graph.initializers = std::move(kept);
    m.graph.name = part.recipe.name;
  }

  // Losses are numbers, and every state is followed by a value of its type.
  void check(const Part& part) {
    const ExprScope scope;
    std::unique_ptr<Graph> graph = lower_model(part.model, LowerOptions{.allow_code = lower_.allow_code});
    const std::vector<TypedShape> loss = types_of(part.model, {part.recipe.loss});
    if (!loss[0].shape.empty() || (loss[0].dtype != DType::f32 && loss[0].dtype != DType::f64))
      refuse(part.recipe.loss_place,
             concat("step ", quoted(part.recipe.name), ": the loss ", quoted(part.recipe.loss), " is ",
                    name_of(loss[0].dtype), " of shape ", to_string(shape_of(loss[0].shape)), ", not a float scalar"));
    if (&part == &parts_[0]) out_.loss_dtype = loss[0].dtype;
    for (size_t k = 1; k < part.outputs.size(); ++k) {
      const TrainingState& state = out_.states[static_cast<size_t>(part.outputs[k].index)];
      const Var* next = graph->outputs.at(k);
      if (next->dtype() != state.initial.dtype || next->shape() != shape_of(state.initial.shape))
        refuse(part.recipe.keep_place,
               concat("step ", quoted(part.recipe.name), ": what ", quoted(state.name), " becomes is ",
                      name_of(next->dtype()), " of shape ", to_string(next->shape()), ", the state is ",
                      name_of(state.initial.dtype), " of shape ", to_string(shape_of(state.initial.shape))));
    }
  }

  void hand_over() {
    out_.has_evaluation = false;
    if (!r_.states.empty()) out_.alone = "its steps keep values of their own (\"states\")";
    for (size_t k = 0; k < parts_.size(); ++k) {
      Part& part = parts_[k];
      out_.loss += (k ? " + " : "") + part.recipe.name;
      out_.optimiser += (k ? " + " : "") + part.recipe.optimiser.kind;
      if (k == 0) {
        out_.step = std::move(part.model);
        out_.step_inputs = std::move(part.inputs);
        out_.step_outputs = std::move(part.outputs);
        continue;
      }
      out_.metrics.push_back({part.recipe.name + " loss", train::Aggregate::mean, false});
      out_.further.push_back(
          {part.recipe.name, std::move(part.model), std::move(part.inputs), std::move(part.outputs), part.recipe.every});
    }
    out_.notes.push_back(concat(parts_.size(), " steps an update; there is no evaluation"));
  }

  const Model& original_;
  std::map<std::string, const Model*> networks_;
  const Recipe& r_;
  const LowerOptions& lower_;
  std::vector<Part> parts_;
  TrainingModel out_;
};

}  // namespace

TrainingModel training_model_of_steps(const Model& model, const std::map<std::string, Model>& networks, const Recipe& recipe,
                                      const LowerOptions& lower) {
  return StepBuilder(model, networks, recipe, lower).run();
}

}  // namespace metac
