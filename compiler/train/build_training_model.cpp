// The model of a step and the model of an evaluation, put together from their parts: fields, losses, derivatives, updates.
#include <algorithm>
#include <map>

#include "compiler/support/diagnostic.h"
#include "compiler/train/batch_fields.h"
#include "compiler/train/forms/exported_parameters.h"
#include "compiler/train/forms/half_storage.h"
#include "compiler/train/forms/training_form.h"
#include "compiler/train/losses.h"
#include "compiler/train/optimisers.h"
#include "compiler/train/parameters.h"
#include "compiler/train/quantized_states.h"
#include "compiler/train/training_model.h"

namespace metac {
namespace {

using train::Source;
using train::StateRole;

Tensor filled(DType dtype, const std::vector<int64_t>& shape, double value) {
  std::byte* data = nullptr;
  Tensor tensor = make_tensor(dtype, shape, &data);
  for (int64_t i = 0; i < tensor.element_count(); ++i)
    if (dtype == DType::f64)
      reinterpret_cast<double*>(data)[i] = value;
    else
      reinterpret_cast<float*>(data)[i] = static_cast<float>(value);
  return tensor;
}

class Builder {
 public:
  Builder(const Model& model, const Recipe& recipe, const LowerOptions& lower, const QuantizedNetwork* quantized)
      : original_(model), r_(recipe), quantized_(quantized), fields_(model, recipe, lower) {}

  TrainingModel run() {
    if (original_.graph.outputs.empty()) throw CompileError({original_.path, "", "the model has no outputs"});
    TrainingModel& t = out_;
    t.evaluate = network();
    settle_random_nodes(t.evaluate, types_);
    t.evaluate.graph.name = "evaluate";
    NodeWriter evaluate(t.evaluate);
    std::vector<std::string> results = write_evaluation(evaluate);
    t.loss_dtype = fields_.type_of(t.evaluate, results[0], original_.path).dtype;
    t.step = network();
    t.step.graph.name = "step";
    choose(results);
    write_step();
    finish_evaluation(evaluate, results);
    t.fields = fields_.fields();
    for (const LossRecipe& loss : r_.losses) t.loss += (t.loss.empty() ? "" : " + ") + loss.kind;
    t.optimiser = r_.optimiser.kind;
    const auto is_sum = [](const LossRecipe& loss) { return loss.reduction == Reduction::sum; };
    t.exchanges_sums = std::all_of(r_.losses.begin(), r_.losses.end(), is_sum);
    if (!t.exchanges_sums && std::any_of(r_.losses.begin(), r_.losses.end(), is_sum))
      t.alone = "some of its losses are sums over the batch and some are means";
    if (t.exchanges_sums && !form_.statistics.empty())
      t.alone = "its loss is a sum over the batch, and running statistics are means";
    return std::move(t);
  }

 private:
  Model network() {
    Model model = fields_.with_fixed_inputs();
    if (r_.storage != DType::f32) storage_note_ = store_in_half(model, r_.storage);
    return model;
  }

  LossContext context(NodeWriter& write, Model& model) {
    return {write, r_.batch, original_.graph.outputs[0].name,
            [this](const std::string& name, const Place& place) { return fields_.type_of(out_.evaluate, name, place); },
            [this, &write, &model](const std::string& name, const TypedShape& type, const Place& place) {
              return fields_.field(write, model, name, type, place);
            }};
  }

  // ---- evaluation: the loss and the metrics of every sample ----
  std::vector<std::string> write_evaluation(NodeWriter& write) {
    LossContext c = context(write, out_.evaluate);
    std::vector<std::string> outputs;
    std::string total;
    for (const LossRecipe& loss : r_.losses) {
      std::string value = write_per_sample(write, write_loss(c, loss), loss.reduction, "train/loss");
      if (first_loss_.empty()) first_loss_ = value;
      if (loss.weight != 1) value = write.elementwise({value}, "@0*" + literal(loss.weight), "train/loss");
      total = total.empty() ? value : write.elementwise({total, value}, "@0 + @1", "train/loss");
    }
    outputs.push_back(total);
    for (const MetricRecipe& metric : r_.metrics)
      outputs.push_back(write.cast(write_metric(c, metric, r_.losses[0], first_loss_), DType::f32, "train/" + metric.name));
    for (const MetricRecipe& metric : r_.metrics)
      out_.metrics.push_back({metric.name, aggregate_of(metric), greater_is_better(metric)});
    return outputs;
  }

  void finish_evaluation(NodeWriter& write, const std::vector<std::string>& results) {
    Model& m = out_.evaluate;
    m.graph.outputs.clear();
    for (size_t k = 0; k < results.size(); ++k) {
      write.add_output(results[k]);
      out_.evaluate_outputs.push_back(k == 0 ? TrainingPort{Source::loss, 0}
                                             : TrainingPort{Source::metric, static_cast<int>(k - 1)});
    }
    out_.evaluate_inputs = fields_.ports(m);
    std::set<std::string> read = values_behind(m.graph, results);
    for (size_t k = 0; k < out_.states.size(); ++k) {
      const TrainingState& state = out_.states[k];
      if (state.initializer < 0 || state.role == StateRole::frozen || !read.count(state.name)) continue;
      // Where there is a moving average, that is the network that is judged.
      int source = static_cast<int>(k);
      for (size_t a = 0; a < out_.states.size(); ++a)
        if (out_.states[a].role == StateRole::average && out_.states[a].partner == source) source = static_cast<int>(a);
      write.add_input(state.name, state.initial.dtype, state.initial.shape);
      out_.evaluate_inputs.push_back({Source::state, source});
    }
    remove_initializers(m);
  }

  // ---- which initialisers are states ----
  void choose(const std::vector<std::string>& results) {
    seed_ = fields_.unused("seed");
    call_ = fields_.unused("call");
    read_ = values_behind(out_.evaluate.graph, results);
    const std::set<int> statistics = running_statistics(original_);
    form_ = put_into_training_form(out_.step, r_, read_, seed_, call_, types_);
    if (learns_scales()) {
      learned_scales_ = fake_quantize_scales(original_.graph);
      learn_scales(out_.step, r_.batch, types_);
    }
    choice_ = choose_parameters(original_, r_, read_, statistics, learned_scales_);
    out_.notes = choice_.notes;
    out_.notes.insert(out_.notes.end(), form_.notes.begin(), form_.notes.end());
    if (!storage_note_.empty()) out_.notes.push_back(storage_note_);
    for (const TrainedParameter& p : choice_.trained)
      add_state(original_.graph.initializers[p.initializer].name, original_.graph.initializers[p.initializer].tensor,
                StateRole::parameter, p.initializer);
    for (const RunningStatistic& s : form_.statistics)
      add_state(original_.graph.initializers[s.initializer].name, original_.graph.initializers[s.initializer].tensor,
                StateRole::statistic, s.initializer);
  }

  int add_state(std::string name, Tensor initial, StateRole role, int initializer, int partner = -1) {
    out_.states.push_back({std::move(name), std::move(initial), role, partner, initializer});
    next_.emplace_back();
    return static_cast<int>(out_.states.size()) - 1;
  }

  bool learns_scales() const { return r_.quantization && r_.quantization->learn_scales; }

  // ---- the step ----
  void write_step() {
    Model& m = out_.step;
    NodeWriter write(m);
    LossContext c = context(write, m);
    std::vector<std::string> totals;
    std::string total, first_per_sample;
    for (const LossRecipe& loss : r_.losses) {
      LossValues values = write_loss(c, loss);
      std::string value = write_total(write, values, loss.reduction, r_.batch, "train/loss");
      if (first_per_sample.empty() && !r_.metrics.empty())
        first_per_sample = write_per_sample(write, values, loss.reduction, "train/loss/sample");
      if (loss.weight != 1) value = write.elementwise({value}, "@0*" + literal(loss.weight), "train/loss");
      total = total.empty() ? value : write.elementwise({total, value}, "@0 + @1", "train/loss");
    }
    std::vector<std::string> outputs = {total};
    out_.step_outputs.push_back({Source::loss, 0});
    for (size_t k = 0; k < r_.metrics.size(); ++k) {
      std::string per_sample = write_metric(c, r_.metrics[k], r_.losses[0], first_per_sample);
      outputs.push_back(write.cast(write.reduce("mean", per_sample, {}, false, "train/" + r_.metrics[k].name), DType::f32,
                                   "train/" + r_.metrics[k].name));
      out_.step_outputs.push_back({Source::metric, static_cast<int>(k)});
    }
    out_.step_inputs = fields_.ports(m);
    write_updates(write, total);
    if (quantized_) write_quantized(write);
    for (const RunningStatistic& s : form_.statistics)
      for (size_t k = 0; k < out_.states.size(); ++k)
        if (out_.states[k].initializer == s.initializer)
          next_[k] = write_applied(write, finite_, out_.states[k].name,
                                   write.exchange(s.next, static_cast<int>(k), s.next + "/mean"));
    add_scalar_inputs(write);
    for (size_t k = 0; k < out_.states.size(); ++k) {
      const TrainingState& state = out_.states[k];
      write.add_input(state.name, state.initial.dtype, state.initial.shape);
      out_.step_inputs.push_back({Source::state, static_cast<int>(k)});
      METAC_ASSERT(!next_[k].empty(), "state ", quoted(state.name), " has no next value");
      outputs.push_back(next_[k]);
      out_.step_outputs.push_back({Source::state, static_cast<int>(k)});
    }
    m.graph.outputs.clear();
    for (const std::string& output : outputs) write.add_output(output);
    remove_initializers(m);
    for (int k : choice_.frozen)
      add_state(original_.graph.initializers[k].name, original_.graph.initializers[k].tensor, StateRole::frozen, k);
  }

  void add_scalar_inputs(NodeWriter& write) {
    auto add = [&](const std::string& name, DType dtype, Source source) {
      write.add_input(name, dtype, {});
      out_.step_inputs.push_back({source, 0});
    };
    add(rate_, DType::f64, Source::learning_rate);
    add(step_, DType::i64, Source::step);
    if (form_.random) {
      add(seed_, DType::i64, Source::seed);
      add(call_, DType::i64, Source::call);
    }
    if (r_.accumulate > 1) add(apply_, DType::boolean, Source::apply);
  }

  // The gradients after accumulation and clipping.
  std::vector<std::string> write_gradients(NodeWriter& write, const std::string& total,
                                           const std::vector<std::string>& names) {
    const bool scaled = r_.storage == DType::f16;
    if (scaled) scale_ = fields_.unused("loss_scale");
    std::vector<std::string> gradients = write.gradient(
        scaled ? write.elementwise({write.cast(total, DType::f32, "train/loss"), scale_}, "@0*@1", "train/scaled_loss")
               : total,
        names);
    const int count = static_cast<int>(names.size());
    for (int k = 0; k < count; ++k) gradients[k] = write.exchange(gradients[k], k, gradients[k] + "/mean");
    if (scaled) unscale(write, gradients);
    if (r_.accumulate > 1) {
      for (int k = 0; k < count; ++k) {
        const Tensor initial = out_.states[k].initial;
        std::string sum = fields_.unused(names[k] + "/accumulated");
        int state = add_state(sum, filled(initial.dtype, initial.shape, 0), StateRole::optimiser, -1);
        gradients[k] = write_accumulated(write, r_, sum, gradients[k], names[k] + "/accumulated/sum");
        next_[state] = write.elementwise({apply_, gradients[k]}, "@0 ? 0 : @1", names[k] + "/accumulated/next");
      }
    }
    std::vector<DType> dtypes;
    for (int k = 0; k < count; ++k) dtypes.push_back(out_.states[k].initial.dtype);
    write_clip(write, r_, dtypes, gradients);
    return gradients;
  }

  // Gradients in float16 pass zero at 6e-8 and end at 65504: those of the loss times a scale are computed. Where one of them
  // is no number the call changes nothing but the scale, which is halved; it doubles after so many good calls.
  void unscale(NodeWriter& write, std::vector<std::string>& gradients) {
    constexpr int64_t calls_to_double = 2000;
    finite_ = write_finite(write, gradients);
    for (size_t k = 0; k < gradients.size(); ++k) {
      const std::string dtype(name_of(out_.states[k].initial.dtype));
      gradients[k] = write.elementwise({gradients[k], scale_}, "@0/" + dtype + "(@1)", gradients[k] + "/unscaled");
    }
    const std::string good = fields_.unused("loss_scale/good_calls");
    const int scale = add_state(scale_, filled(DType::f32, {}, r_.loss_scale), StateRole::counter, -1);
    const int calls = add_state(good, filled(DType::f32, {}, 0), StateRole::counter, -1);
    const std::string full = literal(static_cast<double>(calls_to_double - 1));
    next_[scale] =
        write.elementwise({scale_, good, finite_}, "@2 ? (@1 >= " + full + " ? min(2*@0, 16777216) : @0) : max(0.5*@0, 1)",
                          "train/loss_scale/next");
    next_[calls] = write.elementwise({good, finite_}, "@1 ? (@0 >= " + full + " ? 0 : @0 + 1) : 0", "train/good_calls/next");
  }

  void write_updates(NodeWriter& write, const std::string& total) {
    rate_ = fields_.unused("learning_rate");
    step_ = fields_.unused("step");
    apply_ = fields_.unused("apply");
    std::vector<std::string> names;
    for (const TrainedParameter& p : choice_.trained) names.push_back(original_.graph.initializers[p.initializer].name);
    std::vector<std::string> gradients = write_gradients(write, total, names);
    OptimiserWriter optimiser(write, r_.optimiser, rate_, step_);
    const std::vector<std::string> slots = slots_of(r_.optimiser);
    for (size_t k = 0; k < names.size(); ++k) {
      const TrainedParameter& p = choice_.trained[k];
      const Tensor initial = out_.states[k].initial;
      ParameterUpdate update{names[k], gradients[k], initial.dtype, p.weight_decay, p.rate_scale, {}};
      std::vector<int> states;
      for (const std::string& slot : slots) {
        update.slots.push_back(fields_.unused(names[k] + "/" + slot));
        states.push_back(add_state(update.slots.back(), filled(initial.dtype, initial.shape, initial_slot(r_.optimiser)),
                                   StateRole::optimiser, -1));
      }
      NextValues next = optimiser.update(update);
      if (learned_scales_.count(names[k]))  // a step of 0 or less rounds nothing
        next.parameter = write.elementwise({next.parameter}, "max(@0, 1e-12)", names[k] + "/positive");
      next_[k] = applied(write, names[k], next.parameter);
      for (size_t s = 0; s < states.size(); ++s) next_[states[s]] = applied(write, update.slots[s], next.slots[s]);
      if (averages(r_)) {
        std::string average = fields_.unused(names[k] + "/average");
        int state = add_state(average, initial, StateRole::average, -1, static_cast<int>(k));
        next_[state] = applied(write, average, optimiser.average(r_, average, next_[k], initial.dtype));
      }
    }
  }

  // ---- quantisation: scales that follow, integers of what was updated ----
  int state_of(const std::string& name) const {
    for (size_t k = 0; k < out_.states.size(); ++k)
      if (out_.states[k].name == name && out_.states[k].role != StateRole::frozen) return static_cast<int>(k);
    return -1;
  }
  // The next value of a state, or of the average that is exported in its place; the value itself where it is none.
  std::string next_of(const std::string& name, bool exported) const {
    const int k = state_of(name);
    if (k < 0) return name;
    for (size_t a = 0; exported && a < out_.states.size(); ++a)
      if (out_.states[a].role == StateRole::average && out_.states[a].partner == k) return next_[a];
    return next_[static_cast<size_t>(k)];
  }
  static int index_in(const Model& model, const std::string& name) {
    const auto& all = model.graph.initializers;
    const auto found = std::find_if(all.begin(), all.end(), [&](const Initializer& i) { return i.name == name; });
    METAC_ASSERT(found != all.end(), "no initialiser ", quoted(name));
    return static_cast<int>(found - all.begin());
  }
  const Tensor& tensor_of(const Model& model, const std::string& name) const {
    return model.graph.initializers[static_cast<size_t>(index_in(model, name))].tensor;
  }

  void write_quantized(NodeWriter& write) {
    for (const QuantizedNetwork::Weight& w : quantized_->weights)
      if (!learns_scales() && state_of(w.parameter) >= 0) follow(write, w);
    const auto add = [&](const std::string& name, const std::string& next) {
      next_[add_state(name, tensor_of(quantized_->integers, name), StateRole::statistic, -1)] = next;
    };
    for (const QuantizedNetwork::Weight& w : quantized_->weights) {
      if (state_of(w.parameter) < 0 && state_of(w.scale) < 0) continue;
      const int64_t slices = w.axis < 0 ? 0 : tensor_of(original_, w.scale).element_count();
      add(w.integers, write_weight_integers(write, w, slices, next_of(w.parameter, true), next_of(w.scale, true)));
    }
    for (const QuantizedNetwork::Bias& b : quantized_->biases) {
      if (state_of(b.parameter) < 0 && state_of(b.factor) < 0 && state_of(b.weight_scale) < 0) continue;
      const std::string scale = write_bias_scale(write, b, next_of(b.factor, true), next_of(b.weight_scale, true));
      add(b.scale, scale);
      add(b.integers, write_bias_integers(write, b, next_of(b.parameter, true), scale));
    }
  }

  // The step reads the scale of the weights that it reads; an average of weights has one of its own.
  void follow(NodeWriter& write, const QuantizedNetwork::Weight& w) {
    const Tensor initial = tensor_of(original_, w.scale);
    const int rank = static_cast<int>(tensor_of(original_, w.parameter).shape.size());
    const auto bias = std::find_if(quantized_->biases.begin(), quantized_->biases.end(),
                                   [&](const QuantizedNetwork::Bias& b) { return b.weight_scale == w.scale; });
    const auto next = [&](bool exported) {
      BiasOfScale beside;
      if (bias != quantized_->biases.end()) beside = {next_of(bias->parameter, exported), bias->factor};
      return write_following_scale(write, w, rank, next_of(w.parameter, exported), beside);
    };
    const int state = add_state(w.scale, initial, StateRole::statistic, index_in(original_, w.scale));
    next_[state] = next(false);
    if (!averages(r_)) return;
    const int average = add_state(fields_.unused(w.scale + "/average"), initial, StateRole::average, -1, state);
    next_[average] = next(true);
  }

  // With accumulation only the last call of an update changes anything; a call whose gradients overflowed does not either.
  std::string applied(NodeWriter& write, const std::string& old, const std::string& next) {
    return write_applied(write, r_.accumulate > 1 ? apply_ : finite_, old, next);
  }

  // States become inputs; what nothing reads goes, nodes that would read it too.
  void remove_initializers(Model& m) {
    std::set<std::string> states;
    for (const TrainingState& state : out_.states)
      if (state.initializer >= 0 && state.role != StateRole::frozen) states.insert(state.name);
    std::set<std::string> read;
    std::vector<std::string> outputs;
    for (const Value& output : m.graph.outputs) outputs.push_back(output.name);
    read = values_behind(m.graph, outputs);
    auto unwanted = [&](const Initializer& i) { return states.count(i.name) > 0 || !read.count(i.name); };
    auto& nodes = m.graph.nodes;
    nodes.erase(std::remove_if(nodes.begin(), nodes.end(),
                               [&](const Node& n) {
                                 return std::none_of(n.outputs.begin(), n.outputs.end(),
                                                     [&](const std::string& o) { return read.count(o) > 0; });
                               }),
                nodes.end());
    m.graph.initializers.erase(std::remove_if(m.graph.initializers.begin(), m.graph.initializers.end(), unwanted),
                               m.graph.initializers.end());
  }

  const Model& original_;
  const Recipe& r_;
  const QuantizedNetwork* quantized_;
  BatchFields fields_;
  TrainingModel out_;
  ParameterChoice choice_;
  TrainingForm form_;
  std::set<std::string> read_, learned_scales_;
  std::vector<std::string> next_;  // by state: the value of the step that it becomes
  const TypesOf types_ = [this](const std::vector<std::string>& names) {
    std::vector<TypedShape> types;
    for (const std::string& name : names) types.push_back(fields_.type_of(out_.evaluate, name, original_.path));
    return types;
  };
  std::string seed_, call_, rate_, step_, apply_, first_loss_, storage_note_;
  std::string scale_, finite_;  // float16: the scale of the loss, and whether all gradients are numbers
};

}  // namespace

TrainingModel build_training_model(const Model& model, const Recipe& recipe, const LowerOptions& lower,
                                   const QuantizedNetwork* quantized) {
  return Builder(model, recipe, lower, quantized).run();
}

}  // namespace metac
