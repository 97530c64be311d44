// Module: a part of a network, whose parameters are named by their path ("features.0.weight").
//
//   struct Reader : nn::Module {
//     nn::Conv first = add("first", nn::Conv(1, 8, 3, {.padding = 1}));
//     nn::Linear head = add("head", nn::Linear(8 * 64, 10));
//     Var scale = parameter("scale", nn::filled({1}, 1));
//
//     Var operator()(const Var& x) const { return head(flatten(relu(first(x)), 1)) * scale; }
//   };
//
// A member is registered in the expression that makes it, so that its name stands beside it, parts come in the order in
// which they are declared, and no constructor has to repeat them. A Module is a handle of its parameters as a Var is one of
// its value: what add() returns, the member, and copies of the whole are the same module. So moves and copies leave nothing
// dangling, and a copy that is trained, loaded or switched to eval() is so for all. Two modules with weights of their own
// are made by making two.
#pragma once
#include <algorithm>
#include <set>

#include "safetensors.hpp"

namespace metac::nn {

// What random numbers of a module follow from: its seed, and how often it drew.
struct Draws {
  int64_t seed = 0, calls = 0;
};

class Module {
 public:
  Module() : node_(std::make_shared<Node>()) {}
  Module(const Module&) = default;  // declared so that a move is a copy, and what was moved is still a module
  Module& operator=(const Module&) = default;

  // By their paths, its own ones first, then those of its parts in their order; a Var that is there twice by its first path.
  // With `states` also what is kept beside parameters (running means).
  NamedVars parameters(bool states = false) const {
    NamedVars named;
    std::set<const metac_var*> seen;
    collect(*node_, "", states, seen, named);
    return named;
  }
  // The parameter or state of this path.
  Var operator[](const std::string& path) const {
    const NamedVars all = parameters(true);
    for (const auto& [name, var] : all)
      if (name == path) return var;
    std::string names;
    for (const auto& [name, var] : all) names += (names.empty() ? "" : ", ") + name;
    throw Error(METAC_INVALID_ARGUMENT,
                "there is no parameter " + detail::json_quoted(path) + "; there are " + (names.empty() ? "none" : names));
  }

  // What modules draw by, by the path of their number of calls. Run::keep() of train.hpp keeps them.
  std::vector<std::pair<std::string, std::shared_ptr<Draws>>> draws() const {
    std::vector<std::pair<std::string, std::shared_ptr<Draws>>> all;
    collect_draws(*node_, "", all);
    return all;
  }

  // Of it and all of its parts.
  void train(bool on = true) { set_training(*node_, on); }
  void eval() { train(false); }
  bool training() const { return node_->training; }

  // Writes parameters and states as a safetensors file, whole or not at all.
  void save(const std::string& path) const { save_weights(path, parameters(true)); }
  // Assigns parameters and states, all or none: dtypes are converted, shapes must be equal. Unless `strict`, names that the
  // module or the weights lack are left alone.
  void load(const std::string& path, bool strict = true) { load(load_weights(path), strict); }
  void load(const NamedVars& weights, bool strict = true) {
    const NamedVars own = parameters(true);
    const auto lacking = [](const NamedVars& these, const NamedVars& in) {
      std::set<std::string> names;
      for (const auto& [name, var] : in) names.insert(name);
      std::string missing;
      for (const auto& [name, var] : these)
        if (!names.count(name)) missing += (missing.empty() ? "" : ", ") + name;
      return missing.empty() ? "none" : missing;
    };
    const std::string missing = lacking(own, weights), unknown = lacking(weights, own);
    if (strict && (missing != "none" || unknown != "none"))
      throw Error(METAC_INVALID_ARGUMENT, "weights do not fit: missing " + missing + ", unknown " + unknown);
    std::vector<std::pair<Var, Var>> assigned;
    for (const auto& [name, var] : own) {
      const auto given = std::find_if(weights.begin(), weights.end(), [&](const auto& each) { return each.first == name; });
      if (given == weights.end()) continue;
      if (given->second.shape() != var.shape())
        throw Error(METAC_INVALID_ARGUMENT,
                    name + " is " + shape_text(var.shape()) + ", the weights have " + shape_text(given->second.shape()));
      assigned.emplace_back(var, given->second.dtype() == var.dtype() ? given->second : given->second.cast(var.dtype()));
    }
    for (auto& [var, value] : assigned) var.assign(value);
  }

 protected:
  // Registers a part and returns it; parts of a vector are named by their positions: "blocks.0".
  template <std::derived_from<Module> Part>
  Part add(const std::string& name, Part part) {
    adopt(name, part.Module::node_);
    return part;
  }
  template <std::derived_from<Module> Part>
  std::vector<Part> add(const std::string& name, std::vector<Part> parts) {
    const auto several = std::make_shared<Node>();
    for (const Part& part : parts) several->parts.emplace_back(std::to_string(several->parts.size()), part.Module::node_);
    adopt(name, several);
    return parts;
  }
  // Registers another part in the place of one, and returns it.
  template <std::derived_from<Module> Part>
  Part replace(const std::string& name, Part part) {
    for (auto& [other, node] : node_->parts) {
      if (other != name) continue;
      check_outside(*part.Module::node_);
      node = part.Module::node_;
      return part;
    }
    throw Error(METAC_INVALID_ARGUMENT, "the module has no part " + detail::json_quoted(name));
  }
  // Registers a Var that is trained, or one that is kept and saved and that no optimiser sees.
  Var parameter(const std::string& name, const Var& value) { return keep(name, value, false); }
  Var state(const std::string& name, const Var& value) { return keep(name, value, true); }
  // What the module draws random numbers by.
  std::shared_ptr<Draws> draws_of(int64_t seed) { return node_->draws = std::make_shared<Draws>(Draws{seed, 0}); }

 private:
  struct Node {
    struct Kept {
      std::string name;
      Var var;
      bool is_state;
    };
    bool training = true;
    std::vector<Kept> vars;
    std::vector<std::pair<std::string, std::shared_ptr<Node>>> parts;
    std::shared_ptr<Draws> draws;  // none: it draws nothing

    bool contains(const Node& other) const {
      if (this == &other) return true;
      return std::any_of(parts.begin(), parts.end(), [&](const auto& part) { return part.second->contains(other); });
    }
  };

  void check_name(const std::string& name) const {
    if (name.empty() || name.find('.') != std::string::npos)
      throw Error(METAC_INVALID_ARGUMENT, "a part or parameter cannot be named " + detail::json_quoted(name) +
                                              ": paths are made of names, with points between them");
    const auto taken = [&](const std::string& other) {
      if (other == name) throw Error(METAC_INVALID_ARGUMENT, "the module has a " + detail::json_quoted(name) + " already");
    };
    for (const auto& kept : node_->vars) taken(kept.name);
    for (const auto& [other, part] : node_->parts) taken(other);
  }
  void check_outside(const Node& part) const {
    if (part.contains(*node_)) throw Error(METAC_INVALID_ARGUMENT, "a module cannot be a part of itself");
  }
  void adopt(const std::string& name, const std::shared_ptr<Node>& part) {
    check_name(name);
    check_outside(*part);
    node_->parts.emplace_back(name, part);
  }
  Var keep(const std::string& name, const Var& value, bool is_state) {
    check_name(name);
    if (!value) throw Error(METAC_INVALID_ARGUMENT, "parameter " + detail::json_quoted(name) + " has no value");
    node_->vars.push_back({name, value, is_state});
    return value;
  }
  static void collect(const Node& node, const std::string& prefix, bool states, std::set<const metac_var*>& seen,
                      NamedVars& named) {
    for (const auto& kept : node.vars)
      if ((states || !kept.is_state) && seen.insert(kept.var.handle()).second)
        named.emplace_back(prefix + kept.name, kept.var);
    for (const auto& [name, part] : node.parts) collect(*part, prefix + name + ".", states, seen, named);
  }
  static void collect_draws(const Node& node, const std::string& prefix,
                            std::vector<std::pair<std::string, std::shared_ptr<Draws>>>& all) {
    if (node.draws) all.emplace_back(prefix + "calls", node.draws);
    for (const auto& [name, part] : node.parts) collect_draws(*part, prefix + name + ".", all);
  }
  static void set_training(Node& node, bool on) {
    node.training = on;
    for (const auto& [name, part] : node.parts) set_training(*part, on);
  }

  std::shared_ptr<Node> node_;
};

}  // namespace metac::nn
