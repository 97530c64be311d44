#include "compiler/train/forms/exported_parameters.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_map>

#include "compiler/support/diagnostic.h"
#include "compiler/train/node_writer.h"
#include "compiler/train/parameters.h"

namespace metac {
namespace {

constexpr const char* fx_node = "pkg.torch.onnx.fx_node";
constexpr const char* signature = "pkg.torch.export.ExportedProgram.graph_signature";
constexpr const char* advice =
    "export the model so that nothing is merged or folded: torch.onnx.export(..., dynamo=True, optimize=False), or "
    "dynamo=False with training=TrainingMode.TRAINING and do_constant_folding=False";

bool begins(const std::string& text, const char* with) { return text.rfind(with, 0) == 0; }

// "onnx::MatMul_45": what TorchScript's exporter computed from a parameter. Names of parameters are paths of modules,
// "layers.0.weight".
bool is_folded(const std::string& name) { return name.find("onnx::") != std::string::npos; }

// The module that a TorchScript node belongs to, without the number of its call: "/h_1/MatMul" is of "/h".
std::string module_of(const Node& node) {
  std::string path = node.name.substr(0, node.name.rfind('/') == std::string::npos ? 0 : node.name.rfind('/')), module;
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at + 1), path.size());
    std::string part = path.substr(at, end - at);
    const size_t digits = part.find_last_not_of("0123456789");
    if (digits != std::string::npos && digits + 1 < part.size() && part[digits] == '_') part.resize(digits);
    module += part;
    at = end;
  }
  return module;
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t k = 0; k < names.size() && k < 8; ++k) text += (k ? ", " : "") + quoted(names[k]);
  return names.size() > 8 ? concat(text, " and ", names.size() - 8, " more") : text;
}

bool all_equal(const Tensor& t) {
  const size_t size = size_of(t.dtype);
  const std::byte* bytes = t.bytes.get();
  return t.byte_count() <= size || std::memcmp(bytes, bytes + size, t.byte_count() - size) == 0;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.dtype == b.dtype && a.shape == b.shape && !all_equal(a) &&
         std::memcmp(a.bytes.get(), b.bytes.get(), a.byte_count()) == 0;
}

bool is_transpose(const Tensor& a, const Tensor& b) {
  if (a.dtype != b.dtype || a.shape.size() != 2 || b.shape.size() != 2 || a.shape[0] != b.shape[1] ||
      a.shape[1] != b.shape[0] || a.element_count() == 0)
    return false;
  const size_t size = size_of(a.dtype);
  const int64_t rows = a.shape[0], columns = a.shape[1];
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      if (std::memcmp(a.bytes.get() + (i * columns + j) * static_cast<int64_t>(size),
                      b.bytes.get() + (j * rows + i) * static_cast<int64_t>(size), size) != 0)
        return false;
  return !all_equal(a);
}

// What the dynamo exporter says of the network that it was given.
class Signature {
 public:
  explicit Signature(const ModelGraph& graph) {
    auto found = graph.metadata.find(signature);
    if (found == graph.metadata.end()) return;
    // "p_l1_weight: PARAMETER target='l1.weight'", a line each
    const std::string& text = found->second;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      const std::string line = text.substr(at, end - at);
      at = end + 1;
      const size_t colon = line.find(": "), target = line.find(" target='"), close = line.rfind('\'');
      if (colon == std::string::npos || target == std::string::npos || close < target + 9) continue;
      const std::string kind = line.substr(colon + 2, target - colon - 2),
                        name = line.substr(target + 9, close - target - 9);
      if (kind != "PARAMETER" && kind != "BUFFER" && kind != "CONSTANT_TENSOR") continue;
      targets_[line.substr(0, colon)] = name;
      roles_[name] = kind == "PARAMETER";
    }
  }

  const std::map<std::string, bool>& roles() const { return roles_; }

  // The parameters, buffers and constants that the operator behind a node was called with: "args = (%relu, %p_l1_weight)".
  std::set<std::string> arguments(const Node& node) const {
    std::set<std::string> names;
    auto found = node.metadata.find(fx_node);
    if (found == node.metadata.end()) return names;
    const std::string& text = found->second;
    for (size_t at = text.find('%'); at != std::string::npos; at = text.find('%', at + 1)) {
      const size_t end = std::min(
          text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", at + 1), text.size());
      if (auto target = targets_.find(text.substr(at + 1, end - at - 1)); target != targets_.end())
        names.insert(target->second);
    }
    return names;
  }

 private:
  std::map<std::string, std::string> targets_;  // argument of the exported program -> name in the network
  std::map<std::string, bool> roles_;
};

class Restorer {
 public:
  Restorer(Model& model, Merged merged)
      : model_(model), graph_(model.graph), merged_(merged), roles_(exported_roles(model.graph)) {
    for (size_t i = 0; i < graph_.initializers.size(); ++i) index_[graph_.initializers[i].name] = i;
    for (const Node& node : graph_.nodes)
      if (!node.name.empty() && !is_operator(node, "Identity"))
        for (const std::string& input : node.inputs) modules_[input].insert(module_of(node));
    for (const Value& output : graph_.outputs) outputs_.insert(output.name);
  }

  std::vector<std::string> run() {
    if (model_.producer != "pytorch") return {};
    if (roles_.empty()) separate();
    if (merged_ == Merged::restore) tie_copies();
    return std::move(notes_);
  }

 private:
  // TorchScript's exporter keeps one of equal parameters and makes the others Identity of it. In a network that is exported
  // for training it does so for one parameter that was computed from twice, too.
  void separate() {
    std::vector<std::string> apart, together;
    std::vector<Node> kept;
    for (Node& node : graph_.nodes) {
      const bool merges = is_operator(node, "Identity") && node.inputs.size() == 1 && node.outputs.size() == 1 &&
                          !begins(node.outputs[0], "/") && !outputs_.count(node.outputs[0]) &&
                          index_.count(node.inputs[0]) &&
                          is_float(graph_.initializers[index_.at(node.inputs[0])].tensor.dtype);
      if (!merges) {
        kept.push_back(std::move(node));
        continue;
      }
      const std::string from = node.inputs[0], to = node.outputs[0];
      if (merged_ == Merged::tie || (merged_ == Merged::restore && is_folded(to) && same_modules(from, to))) {
        together.push_back(to);
        kept.push_back(std::move(node));
      } else {
        apart.push_back(to);
        index_[to] = graph_.initializers.size();
        graph_.initializers.push_back({to, graph_.initializers[index_.at(from)].tensor});
      }
    }
    graph_.nodes = std::move(kept);
    if (!apart.empty())
      notes_.push_back(
          concat(apart.size(),
                 " parameters and buffers that the exporter kept once, as they were equal to others, are their own again: ",
                 listed(apart)));
    if (!together.empty())
      notes_.push_back(
          concat(together.size(),
                 " names stand for a parameter that has another name too, and are trained as one: ", listed(together)));
  }

  // Are all that read them calls of one module?
  bool same_modules(const std::string& a, const std::string& b) const {
    auto first = modules_.find(a), second = modules_.find(b);
    return first != modules_.end() && second != modules_.end() && first->second.size() == 1 &&
           first->second == second->second;
  }

  // An embedding whose weight is the output layer's too: the exporter writes the weight, and its transpose as a constant of
  // its own. Where initialisers are inputs it writes the weight of a layer that is called twice as two constants.
  void tie_copies() {
    std::vector<Node> copies;
    std::vector<std::string> tied;
    auto tie = [&](const char* op, const std::string& from, const std::string& to) {
      Node node;
      node.op_type = op;
      node.name = to;
      node.inputs = {from};
      node.outputs = {to};
      if (node.op_type == "Transpose") node.attributes["perm"] = integers_attribute({1, 0});
      tied.push_back(concat(to, " = ", node.op_type == "Transpose" ? "transposed " : "", from));
      copies.push_back(std::move(node));
    };
    const auto& all = graph_.initializers;
    for (size_t c = 0; c < all.size(); ++c) {
      const Initializer& copy = all[c];
      if (!is_float(copy.tensor.dtype) || !is_made(copy.name) || outputs_.count(copy.name)) continue;
      for (size_t o = 0; o < all.size(); ++o) {
        const Initializer& own = all[o];
        if (!is_made(own.name) && is_transpose(own.tensor, copy.tensor)) {
          tie("Transpose", own.name, copy.name);
          break;
        }
        if (o < c && is_folded(own.name) && same_bytes(own.tensor, copy.tensor) && same_modules(own.name, copy.name)) {
          tie("Identity", own.name, copy.name);
          break;
        }
      }
    }
    if (copies.empty()) return;
    const auto made = [&](const std::string& name) {
      return std::any_of(copies.begin(), copies.end(), [&](const Node& n) { return n.outputs[0] == name; });
    };
    auto& initializers = graph_.initializers;
    initializers.erase(
        std::remove_if(initializers.begin(), initializers.end(), [&](const Initializer& i) { return made(i.name); }),
        initializers.end());
    graph_.inputs.erase(
        std::remove_if(graph_.inputs.begin(), graph_.inputs.end(), [&](const Value& v) { return made(v.name); }),
        graph_.inputs.end());
    graph_.nodes.insert(graph_.nodes.begin(), copies.begin(), copies.end());
    notes_.push_back(concat(tied.size(), " copies that the exporter made are one parameter again: ", listed(tied)));
  }

  bool is_made(const std::string& name) const {
    return roles_.empty() ? is_folded(name) : begins(name, "val_") && !roles_.count(name);
  }

  Model& model_;
  ModelGraph& graph_;
  const Merged merged_;
  const std::map<std::string, bool> roles_;
  std::unordered_map<std::string, size_t> index_;
  std::unordered_map<std::string, std::set<std::string>> modules_;  // of what reads a value
  std::set<std::string> outputs_;
  std::vector<std::string> notes_;
};

}  // namespace

std::vector<std::string> restore_parameters(Model& model, Merged merged) { return Restorer(model, merged).run(); }

std::map<std::string, bool> exported_roles(const ModelGraph& graph) { return Signature(graph).roles(); }

InitializerNames::InitializerNames(const ModelGraph& graph) {
  for (size_t i = 0; i < graph.initializers.size(); ++i)
    initializers_.emplace(graph.initializers[i].name, static_cast<int>(i));
  for (const Node& node : graph.nodes)
    if (is_operator(node, "Identity") && node.inputs.size() == 1 && node.outputs.size() == 1)
      others_.emplace(node.outputs[0], node.inputs[0]);
}

int InitializerNames::behind(std::string name) const {
  for (size_t steps = 0; steps <= others_.size(); ++steps) {
    if (auto found = initializers_.find(name); found != initializers_.end()) return found->second;
    auto other = others_.find(name);
    if (other == others_.end()) return -1;
    name = other->second;
  }
  return -1;
}

std::set<int> running_statistics(const Model& model) {
  const ModelGraph& graph = model.graph;
  const InitializerNames names(graph);
  std::map<int, size_t> roles;  // 3: mean, 4: variance
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!is_operator(node, "BatchNormalization")) continue;
    for (size_t k = 3; k < node.inputs.size() && k < 5; ++k)
      if (const int i = names.behind(node.inputs[k]); i >= 0) roles.emplace(i, k);
  }
  for (size_t n = 0; n < graph.nodes.size() && !roles.empty(); ++n) {
    const Node& node = graph.nodes[n];
    if (is_operator(node, "Identity")) continue;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const int i = names.behind(node.inputs[k]);
      auto found = roles.find(i);
      if (i < 0 || found == roles.end() || (is_operator(node, "BatchNormalization") && found->second == k)) continue;
      throw CompileError(
          {model.path, describe(node, static_cast<int>(n)),
           concat("reads ", quoted(graph.initializers[static_cast<size_t>(i)].name), ", which is the running ",
                  found->second == 3 ? "mean" : "variance",
                  " of a BatchNormalization too: equal parameters and buffers were kept once, and would not train apart; ",
                  advice)});
    }
  }
  std::set<int> statistics;
  for (const auto& [i, role] : roles) statistics.insert(i);
  return statistics;
}

void require_known_parameters(const Model& model, const Recipe& recipe, const std::set<int>& trained) {
  const ModelGraph& graph = model.graph;
  const Signature exported(graph);
  std::unordered_map<std::string, std::vector<int>> readers;
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    for (const std::string& input : graph.nodes[n].inputs) readers[input].push_back(static_cast<int>(n));
  auto refuse = [&](int n, const std::string& message) {
    throw CompileError({model.path, describe(graph.nodes[static_cast<size_t>(n)], n), message});
  };
  std::set<std::string> present;
  for (const Initializer& i : graph.initializers) present.insert(i.name);
  auto named = [&](const std::string& name) {
    return std::any_of(recipe.train.begin(), recipe.train.end(), [&](const Pattern& p) { return matches(p.glob, name); });
  };

  for (int i : trained) {
    const Initializer& parameter = graph.initializers[static_cast<size_t>(i)];
    const std::string& name = parameter.name;
    for (int n : readers[name]) {
      const Node& node = graph.nodes[static_cast<size_t>(n)];
      auto rule = node.metadata.find("pkg.onnxscript.rewriter.rule_name");
      const bool folded =
          (is_operator(node, "Conv") && node.inputs.size() > 2 && is_folded(node.inputs[1]) && is_folded(node.inputs[2])) ||
          (rule != node.metadata.end() && rule->second.find("FuseBatchNorm") != std::string::npos);
      if (folded && recipe.batch_statistics.value_or(true))
        refuse(n, concat("a BatchNormalization was folded into it by the exporter, so that ", quoted(name),
                         " would not train as in PyTorch; ", advice,
                         ". What the file has trains with \"batch_norm\": {\"statistics\": \"running\"}"));
    }
    if (exported.roles().empty() || named(name)) continue;
    // An operator was called with other parameters than the one that its node reads now: that stands for several.
    std::set<std::string> common;
    bool first = true;
    for (int n : readers[name]) {
      const std::set<std::string> called = exported.arguments(graph.nodes[static_cast<size_t>(n)]);
      const auto missing =
          std::find_if(called.begin(), called.end(), [&](const std::string& c) { return !present.count(c); });
      if (called.empty()) continue;
      if (exported.roles().count(name)) {
        if (!called.count(name) && missing != called.end())
          refuse(n, concat("reads ", quoted(name), " where PyTorch has ", quoted(*missing),
                           ": the exporter kept equal parameters once, and they would not train apart; ", advice));
        continue;
      }
      std::set<std::string> both;
      std::set_intersection(common.begin(), common.end(), called.begin(), called.end(), std::inserter(both, both.begin()));
      if (!first && both.empty())
        refuse(n,
               concat("reads ", quoted(name), ", which the exporter made of several parameters that were equal; ", advice));
      common = first ? called : both;
      first = false;
    }
    // A constant of the exporter's own: the transposed weight of a linear layer trains as the weight, anything else may be
    // no parameter at all.
    if (exported.roles().count(name)) continue;
    for (int n : readers[name]) {
      const Node& node = graph.nodes[static_cast<size_t>(n)];
      const size_t input =
          static_cast<size_t>(std::find(node.inputs.begin(), node.inputs.end(), name) - node.inputs.begin());
      if (is_structure(node, input)) continue;
      const bool weight = parameter.tensor.shape.size() >= 2 &&
                          (is_operator(node, "MatMul") || is_operator(node, "Gemm") || is_operator(node, "Conv") ||
                           is_operator(node, "ConvTranspose")) &&
                          input == 1;
      if (!weight)
        refuse(n, concat("reads ", quoted(name),
                         ", a constant that the exporter computed: whether it comes from a parameter the file does not say; "
                         "name it in \"train\" or in \"freeze\", or ",
                         advice));
    }
  }
}

}  // namespace metac
