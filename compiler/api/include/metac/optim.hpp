// Losses and optimisers of recipes (docs/training.md) for training loops in C++: the same names, options and formulas.
//
//   optim::Optimiser optimiser(net, "sgd", {{"learning_rate", 0.1}, {"momentum", 0.9}}, {.clip_norm = 1, .average = 0.98});
//   Var loss = optim::loss("cross_entropy", net(images), labels, {{"label_smoothing", 0.1}});
//   optimiser.step(loss);
//   loss.evaluate();
#pragma once
#include <cmath>
#include <optional>

#include "detail/json.hpp"
#include "functions.hpp"

namespace metac::optim {

// A value of a recipe's field: a number, true or false, a text, or a list of numbers or texts.
class Value {
 public:
  Value(bool value) : json_(value ? "true" : "false") {}
  Value(std::integral auto value) : json_(std::to_string(value)) {}
  Value(std::floating_point auto value) : json_(number(static_cast<double>(value))) {}
  Value(const char* text) : json_(detail::json_quoted(text)) {}
  Value(const std::string& text) : json_(detail::json_quoted(text)) {}
  Value(const std::vector<double>& numbers) : json_(list(numbers)) {}
  Value(std::initializer_list<double> numbers) : json_(list(std::vector<double>(numbers))) {}
  Value(const std::vector<std::string>& texts) : json_(list(texts)) {}
  const std::string& json() const { return json_; }

 private:
  static std::string number(double value) {
    if (!std::isfinite(value)) throw Error(METAC_INVALID_ARGUMENT, "an option is no finite number");
    char text[32];
    return std::string(text, std::to_chars(text, text + sizeof text, value).ptr);
  }
  template <class T>
  static std::string list(const std::vector<T>& values) {
    std::string text;
    for (const T& value : values) text += (text.empty() ? "" : ", ") + Value(value).json();
    return "[" + text + "]";
  }
  std::string json_;
};

using Options = std::vector<std::pair<std::string, Value>>;

namespace detail {

using namespace metac::detail;

inline std::string json_of(const std::string& kind, const Options& options) {
  std::string text = "{\"kind\": " + json_quoted(kind);
  for (const auto& [name, value] : options) text += ", " + json_quoted(name) + ": " + value.json();
  return text + "}";
}

}  // namespace detail

namespace detail {

// `append`: metac_var_loss or metac_var_losses.
template <class Append>
Var appended(Append append, const std::string& kind, const Var& output, const Var& target, const Options& options,
             const Place& where) {
  const metac_site site = site_of(where);
  metac_var* made = nullptr;
  check(append(json_of(kind, options).c_str(), output.handle(), target.handle(), &made, &site));
  return Var(made);
}

}  // namespace detail

// A recipe's loss of an output and its target, both with the batch first: "cross_entropy", "mse", "huber", ...
inline Var loss(const std::string& kind, const Var& output, const Var& target, const Options& options = {},
                Place where = Place::current()) {
  return detail::appended(metac_var_loss, kind, output, target, options, where);
}
// The same of each sample, [batch]: what an evaluation adds up.
inline Var losses(const std::string& kind, const Var& output, const Var& target, const Options& options = {},
                  Place where = Place::current()) {
  return detail::appended(metac_var_losses, kind, output, target, options, where);
}

// Deviations for the parameters whose names match one of the patterns, `*` any characters and `?` one; the later group wins.
struct Group {
  std::vector<std::string> match;
  std::optional<double> weight_decay = {}, rate_scale = {};
  std::optional<bool> frozen = {};  // it stays as it is: nothing is kept and no gradient computed for it
};

// What surrounds the optimiser's formula in an update, as a recipe has it.
struct Update {
  double clip_norm = 0,
         clip_value = 0;      // gradients are scaled to this norm at most, or each element is cut; 0: they are not
  int64_t accumulate = 1;     // steps of one update, whose gradients are averaged
  double average = 0;         // the decay of an exponential moving average of the parameters; 0: none
  int64_t average_from = -1;  // instead: their plain mean behind the updates from this one on, from 0
  std::vector<Group> groups = {};
  // "skip": a step changes nothing where an element of a gradient is NaN or infinite, and does not count; with `accumulate`
  // the next one takes its place.
  std::string non_finite = "stop";
};

namespace detail {

inline std::string json_of(const Group& group) {
  std::string text = "{\"match\": " + Value(group.match).json();
  if (group.weight_decay) text += ", \"weight_decay\": " + Value(*group.weight_decay).json();
  if (group.rate_scale) text += ", \"rate_scale\": " + Value(*group.rate_scale).json();
  if (group.frozen) text += ", \"frozen\": " + Value(*group.frozen).json();
  return text + "}";
}

inline std::string json_of(const std::string& kind, const Options& options, const Update& update) {
  if (update.clip_norm != 0 && update.clip_value != 0)
    throw Error(METAC_INVALID_ARGUMENT, "clip_norm and clip_value exclude each other");
  if (update.average != 0 && update.average_from >= 0)
    throw Error(METAC_INVALID_ARGUMENT, "average and average_from exclude each other");
  std::string text = "{\"optimizer\": " + json_of(kind, options) + ", \"accumulate\": " + Value(update.accumulate).json();
  if (update.clip_norm != 0) text += ", \"clip\": {\"norm\": " + Value(update.clip_norm).json() + "}";
  if (update.clip_value != 0) text += ", \"clip\": {\"value\": " + Value(update.clip_value).json() + "}";
  if (update.average != 0) text += ", \"average\": " + Value(update.average).json();
  if (update.average_from >= 0) text += ", \"average\": {\"from\": " + Value(update.average_from).json() + "}";
  std::string groups;
  for (const Group& group : update.groups) groups += (groups.empty() ? "" : ", ") + json_of(group);
  return text + ", \"groups\": [" + groups + "], \"non_finite\": " + json_quoted(update.non_finite) + "}";
}

}  // namespace detail

// A recipe's optimiser of a module's parameters, or of Vars with or without names: "sgd", "adam", "adamw", "adagrad",
// "rmsprop", "lion". It can be moved, not copied: there is one account of what it keeps.
class Optimiser {
 public:
  template <class Module>
  requires requires(const Module& module) {
    { module.parameters() } -> std::convertible_to<NamedVars>;
  }
  Optimiser(const Module& module, const std::string& kind, const Options& options = {}, const Update& update = {})
      : Optimiser(NamedVars(module.parameters()), kind, options, update) {}
  Optimiser(const std::vector<Var>& parameters, const std::string& kind, const Options& options = {},
            const Update& update = {})
      : Optimiser(numbered(parameters), kind, options, update) {}
  Optimiser(NamedVars parameters, const std::string& kind, const Options& options = {}, const Update& update = {})
      : parameters_(std::move(parameters)), own_(nullptr, metac_optimiser_free) {
    std::vector<metac_var*> handles;
    std::vector<const char*> names;
    for (const auto& [name, var] : parameters_) handles.push_back(var.handle()), names.push_back(name.c_str());
    metac_optimiser* made = nullptr;
    detail::check(metac_optimiser_make_named(detail::json_of(kind, options, update).c_str(), handles.data(), names.data(),
                                             static_cast<int32_t>(handles.size()), &made));
    own_.reset(made);
    for (size_t k = 0; k < parameters_.size(); ++k) {
      int32_t trains = 0;
      detail::check(metac_optimiser_trains(made, static_cast<int32_t>(k), &trains));
      if (trains) trained_.push_back(parameters_[k]);
    }
  }

  const NamedVars& parameters() const { return parameters_; }
  const NamedVars& trained() const { return trained_; }  // those that no group froze
  metac_optimiser* handle() const { return own_.get(); }

  // Assigns the parameters' next values, by the gradients of a loss or by those given, one of each that trains; nothing is
  // computed yet. `rate`: this step's learning rate.
  void step(const Var& loss, std::optional<double> rate = {}, Place where = Place::current()) {
    std::vector<Var> vars;
    for (const auto& [name, var] : trained_) vars.push_back(var);
    step(grad(loss, vars, where), rate, where);
  }
  void step(const std::vector<Var>& gradients, std::optional<double> rate = {}, Place where = Place::current()) {
    if (rate && !(*rate >= 0)) throw Error(METAC_INVALID_ARGUMENT, "a learning rate of " + std::to_string(*rate));
    const metac_site site = detail::site_of(where);
    std::vector<metac_var*> handles;
    for (const Var& gradient : gradients) handles.push_back(gradient.handle());
    detail::check(
        metac_optimiser_step(own_.get(), handles.data(), static_cast<int32_t>(handles.size()), rate.value_or(-1), &site));
  }
  // So that {gradient} is a list of one, and no loss.
  void step(std::initializer_list<Var> gradients, std::optional<double> rate = {}, Place where = Place::current()) {
    step(std::vector<Var>(gradients), rate, where);
  }

  // How many were made; `accumulate` of them are an update. Those left out do not count, and asking looks at them.
  int64_t steps() const {
    int64_t steps = 0;
    detail::check(metac_optimiser_steps(own_.get(), &steps, 0));
    return steps;
  }
  // What it keeps, for checkpoints, beside steps(): "weight/momentum", ...; nn::save_weights() writes it.
  NamedVars state() const {
    NamedVars all;
    for (size_t k = 0; k < parameters_.size(); ++k) {
      metac_var* var = nullptr;
      const char* slot = nullptr;
      const auto next = [&](int32_t at) {
        return metac_optimiser_slot(own_.get(), static_cast<int32_t>(k), at, &var, &slot) == METAC_OK;
      };
      for (int32_t at = 0; next(at); ++at) all.emplace_back(parameters_[k].first + "/" + slot, Var(var));
    }
    return all;
  }
  // Goes on from there; all that it keeps must be given.
  void load_state(const NamedVars& state, int64_t steps) {
    std::vector<std::pair<Var, Var>> assigned;
    for (const auto& [name, var] : this->state()) {
      const Var* given = nullptr;
      for (const auto& [other, value] : state)
        if (other == name) given = &value;
      if (!given) throw Error(METAC_INVALID_ARGUMENT, "the state lacks " + detail::json_quoted(name));
      if (given->shape() != var.shape() || given->dtype() != var.dtype())
        throw Error(METAC_INVALID_ARGUMENT, "the state's " + detail::json_quoted(name) + " has another shape or dtype");
      assigned.emplace_back(var, *given);
    }
    if (steps < 0) throw Error(METAC_INVALID_ARGUMENT, "a state of " + std::to_string(steps) + " steps");
    for (auto& [var, value] : assigned) var.assign(value);
    detail::check(metac_optimiser_steps(own_.get(), &steps, 1));
  }

 private:
  static NamedVars numbered(const std::vector<Var>& parameters) {
    NamedVars named;
    for (const Var& parameter : parameters) named.emplace_back(std::to_string(named.size()), parameter);
    return named;
  }
  NamedVars parameters_, trained_;
  std::unique_ptr<metac_optimiser, void (*)(metac_optimiser*)> own_;
};

// While one lives, the parameters are their averages: to evaluate them, to save them, to trace. Steps and checkpoints must
// wait until it has ended.
class Averaged {
 public:
  explicit Averaged(const Optimiser& optimiser) : parameters_(optimiser.trained()) {
    const NamedVars state = optimiser.state();
    std::vector<Var> averages;
    for (const auto& [name, var] : parameters_)
      for (const auto& [other, slot] : state)
        if (other == name + "/average") averages.push_back(slot);
    if (averages.size() != parameters_.size()) throw Error(METAC_INVALID_ARGUMENT, "the optimiser keeps no average");
    for (size_t k = 0; k < averages.size(); ++k) {
      Var& parameter = parameters_[k].second;
      own_.push_back(stop_grad(parameter));
      parameter.assign(averages[k]);
    }
  }
  ~Averaged() {
    for (size_t k = 0; k < own_.size(); ++k) {
      const metac_site site{};
      metac_var_assign(parameters_[k].second.handle(), own_[k].handle(), &site);
    }
  }
  Averaged(const Averaged&) = delete;
  Averaged& operator=(const Averaged&) = delete;

 private:
  NamedVars parameters_;
  std::vector<Var> own_;
};

}  // namespace metac::optim
