#include "compiler/train/join_networks.h"

#include <algorithm>

#include "compiler/ops/rename_values.h"
#include "compiler/support/diagnostic.h"
#include "compiler/train/node_writer.h"

namespace metac {
namespace {

class Joiner {
 public:
  Joiner(const StepRecipe& step, const std::map<std::string, const Model*>& networks, const std::string& path)
      : step_(step), networks_(networks) {
    out_.path = path;
  }

  Model run() {
    out_.graph.initializers = step_.graph.initializers;
    for (const Node& node : step_.graph.nodes) {
      if (node.domain == "network") {
        call(node);
        continue;
      }
      if (node.domain == "metac" || node.domain == "ai.onnx.preview.training") out_.opset_imports.emplace(node.domain, 1);
      out_.graph.nodes.push_back(node);
    }
    if (!out_.opset_imports.count("")) out_.opset_imports[""] = 17;  // networks of meta-operators alone
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(const Node& node, const std::string& message) const {
    throw CompileError(
        {step_.place, "", concat("step ", quoted(step_.name), " calls ", quoted(node.op_type), " ", message)});
  }

  void call(const Node& node) {
    const Model& network = *networks_.at(node.op_type);
    const ModelGraph& graph = network.graph;
    const int number = ++calls_[node.op_type];
    if (number == 1) take(node, network);
    const std::string prefix = concat(node.op_type, ".", number, "/");
    ValueNames names;
    for (const Initializer& i : graph.initializers) names[i.name] = parameter_name(node.op_type, i.name);
    size_t inputs = 0;
    for (const Value& input : graph.inputs) {
      if (names.count(input.name)) continue;  // it has a default
      if (inputs < node.inputs.size()) names[input.name] = node.inputs[inputs];
      ++inputs;
    }
    if (inputs != node.inputs.size()) refuse(node, concat("with ", node.inputs.size(), " inputs, it has ", inputs));
    if (node.outputs.size() > graph.outputs.size())
      refuse(node, concat("for ", node.outputs.size(), " outputs, it has ", graph.outputs.size()));
    for (const Node& inner : graph.nodes)
      for (const std::string& output : inner.outputs)
        if (!output.empty()) names[output] = prefix + output;
    for (const Node& inner : graph.nodes) {
      Node copy = inner;
      rename_values(copy, names);
      if (!copy.name.empty()) copy.name = prefix + copy.name;
      out_.graph.nodes.push_back(std::move(copy));
    }
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      if (node.outputs[k].empty()) continue;
      std::string from = graph.outputs[k].name;
      rename_value(names, from);
      out_.opset_imports.emplace("metac", 1);
      Node same;
      same.domain = "metac";
      same.op_type = "elementwise";
      same.name = prefix + "output";
      same.inputs = {from};
      same.outputs = {node.outputs[k]};
      same.attributes["body"] = strings_attribute({"@0"});
      out_.graph.nodes.push_back(std::move(same));
    }
  }

  // What a network needs once.
  void take(const Node& node, const Model& network) {
    for (const auto& [domain, version] : network.opset_imports) {
      const auto [known, fresh] = out_.opset_imports.emplace(domain, version);
      if (!fresh && known->second != version)
        refuse(node, concat("(", network.path, "), which is of opset ", version, domain.empty() ? "" : " of " + domain,
                            "; the networks before it are of ", known->second));
    }
    for (const ModelFunction& function : network.functions) {
      if (std::any_of(out_.functions.begin(), out_.functions.end(), [&](const ModelFunction& f) {
            return f.domain == function.domain && f.name == function.name && f.overload == function.overload;
          }))
        refuse(node, concat("(", network.path, "), whose function ", quoted(function.name), " another network has too"));
      out_.functions.push_back(function);
    }
    for (const Initializer& i : network.graph.initializers) {
      const std::string name = parameter_name(node.op_type, i.name);
      if (std::any_of(out_.graph.initializers.begin(), out_.graph.initializers.end(),
                      [&](const Initializer& other) { return other.name == name; }))
        refuse(node, concat("whose parameter ", quoted(name), " has the name of another"));
      out_.graph.initializers.push_back({name, i.tensor, i.packed});
    }
  }

  const StepRecipe& step_;
  const std::map<std::string, const Model*>& networks_;
  Model out_;
  std::map<std::string, int> calls_;
};

}  // namespace

std::string parameter_name(const std::string& network, const std::string& parameter) {
  return network == "model" ? parameter : network + "/" + parameter;
}

Model join_networks(const StepRecipe& step, const std::map<std::string, const Model*>& networks, const std::string& path) {
  return Joiner(step, networks, path).run();
}

}  // namespace metac
