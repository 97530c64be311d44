// What can be said against a model without lowering it: names, order, cycles, opsets, operators, attributes.
#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "compiler/ops/model_lowering.h"
#include "compiler/ops/onnx_dtypes.h"

namespace metac {

void for_each_subgraph(const Node& node, const std::function<void(const ModelGraph&)>& f) {
  for (const auto& [name, attribute] : node.attributes)
    for (const auto& graph : attribute.graphs)
      if (graph) f(*graph);
}

// The names of outer values that a subgraph reads, nested subgraphs included. `depth` bounds hostile nesting.
void outer_reads(const ModelGraph& graph, std::set<std::string>& reads, int depth) {
  if (depth > 100) return;
  std::set<std::string> inner, own;
  for (const Value& v : graph.inputs) own.insert(v.name);
  for (const Initializer& i : graph.initializers) own.insert(i.name);
  for (const Node& node : graph.nodes) {
    inner.insert(node.inputs.begin(), node.inputs.end());
    for_each_subgraph(node, [&](const ModelGraph& g) { outer_reads(g, inner, depth + 1); });
    own.insert(node.outputs.begin(), node.outputs.end());
  }
  for (const Value& v : graph.outputs) inner.insert(v.name);
  for (const std::string& name : inner)
    if (!own.count(name)) reads.insert(name);
}

namespace {

struct Names {
  std::unordered_set<std::string> own;
  const Names* outer = nullptr;
  bool has(const std::string& name) const {
    for (const Names* n = this; n; n = n->outer)
      if (n->own.count(name)) return true;
    return false;
  }
};

using Opsets = std::map<std::string, int64_t>;

class Checker {
 public:
  Checker(const Model& model, std::vector<Finding>& problems) : model_(model), problems_(problems) {}

  void check() {
    check_opsets(model_.opset_imports, "");
    if (model_.graph.outputs.empty()) report("", "the model has no outputs");
    check_ports(model_.graph);
    check_graph(model_.graph, nullptr, model_.opset_imports, "", 0);
    while (!calls_.empty()) {
      const ModelFunction* function = calls_.back();
      calls_.pop_back();
      check_function(*function);
    }
    for (auto& [key, count] : repeated_)
      if (count.second > 1) problems_[count.first].message += concat(" (and ", count.second - 1, " more such nodes)");
  }

 private:
  void report(
      const std::string& node, const std::string& message,
      const std::string& advice = "the file breaks ONNX's rules: write or export it again; onnx.checker may say more") {
    problems_.push_back({{model_.path, node, message}, "", "", 0, {}, advice});
  }

  // As report(), of a node whose operator the model may use.
  void report_node(const std::string& here, const Node& node, int64_t opset, const std::string& message,
                   const std::string& advice) {
    report(here, message, advice);
    Finding& finding = problems_.back();
    finding.op_type = node.op_type;
    finding.domain = node.domain;
    finding.opset = opset;
  }

  // Inputs and outputs must be numeric tensors of a dtype that this build computes with.
  void check_ports(const ModelGraph& graph) {
    std::unordered_set<std::string> parameters;
    for (const Initializer& init : graph.initializers) parameters.insert(init.name);
    auto check = [&](const Value& v, const char* role) {
      const ValueType& type = v.type;
      if (type.containers.size() != 1 || type.containers[0] != "tensor")
        report(
            "",
            concat(role, " ", quoted(v.name), " is a ",
                   type.containers.empty() ? "value of unknown type" : type.containers[0], "; only tensors are supported"),
            "let the model take and give tensors: one input or output for each");
      else if (type.dtype ? *type.dtype == DType::string : type.onnx_dtype != 0)
        report("",
               concat(role, " ", quoted(v.name), " is of ", name_of_onnx_number(type.dtype ? 8 : type.onnx_dtype),
                      ", which is not supported"),
               "cast it to another type outside the model, and let the model take or give that");
    };
    for (const Value& v : graph.inputs)
      if (!parameters.count(v.name)) check(v, "input");
    for (const Value& v : graph.outputs) check(v, "output");
  }

  void check_opsets(const Opsets& opsets, const std::string& where) {
    if (opsets.empty()) report(where, "the model has no opset_import");
    for (const auto& [domain, version] : opsets) {
      if (version < 1)
        report(where, concat("opset ", version, " of domain ", display_domain(domain), " is no version"));
      else if (domain.empty() && version > newest_opset)
        report(where, concat("opset ", version, " is newer than ", newest_opset, ", the newest this build knows"),
               concat("convert the model to opset ", newest_opset, " or older: onnx.version_converter does"));
    }
  }

  void check_function(const ModelFunction& function) {
    std::string where = "function " + quoted(function.name);
    if (function.opset_imports.size() && &function.opset_imports != &model_.opset_imports)
      check_opsets(function.opset_imports, where);
    Names names;
    for (const std::string& input : function.inputs)
      if (!names.own.insert(input).second) report(where, concat("input ", quoted(input), " is named twice"));
    check_nodes(function.nodes, names, function.opset_imports, where, 0);
    for (const std::string& output : function.outputs)
      if (!names.own.count(output)) report(where, concat("output ", quoted(output), " is not produced by anything"));
  }

  void check_graph(const ModelGraph& graph, const Names* outer, const Opsets& opsets, const std::string& where, int depth) {
    if (depth > 100) return report(where, "subgraphs nest deeper than 100");
    Names names;
    names.outer = outer;
    std::set<std::string> inputs;
    for (const Value& input : graph.inputs) {
      if (!inputs.insert(input.name).second) report(where, concat("input ", quoted(input.name), " is named twice"));
      if (outer && outer->has(input.name))
        report(where, concat("input ", quoted(input.name), " of a subgraph hides a value of the graph around it"));
      names.own.insert(input.name);
    }
    std::unordered_set<std::string> initializers;
    for (const Initializer& init : graph.initializers) {
      if (!initializers.insert(init.name).second)
        report(where, concat("initializer ", quoted(init.name), " is defined twice"));
      names.own.insert(init.name);
      if (init.packed) packed_.insert(init.name);
    }
    check_nodes(graph.nodes, names, opsets, where, depth);
    for (const Value& output : graph.outputs)
      if (!names.has(output.name)) report(where, concat("output ", quoted(output.name), " is not produced by anything"));
  }

  void check_nodes(const std::vector<Node>& nodes, Names& names, const Opsets& opsets, const std::string& where, int depth) {
    std::unordered_map<std::string, int> producers;  // of every name that some node of this graph produces
    for (size_t k = 0; k < nodes.size(); ++k)
      for (const std::string& out : nodes[k].outputs)
        if (!out.empty()) producers.emplace(out, static_cast<int>(k));
    bool unsorted = false;
    for (size_t k = 0; k < nodes.size(); ++k) {
      const Node& node = nodes[k];
      std::string here = (where.empty() ? "" : where + " > ") + describe(node, static_cast<int>(k));
      std::set<std::string> reads(node.inputs.begin(), node.inputs.end());
      for_each_subgraph(node, [&](const ModelGraph& g) { outer_reads(g, reads); });
      for (const std::string& name : reads) {
        if (name.empty() || names.has(name)) continue;
        if (auto later = producers.find(name); later != producers.end()) {
          if (!unsorted) report_disorder(nodes, producers, name, static_cast<int>(k), later->second, here);
          unsorted = true;
          names.own.insert(name);
        } else {
          bool direct = std::count(node.inputs.begin(), node.inputs.end(), name) > 0;
          if (direct) report(here, concat("input ", quoted(name), " of node #", k, " is not produced by anything"));
        }
      }
      for_each_subgraph(node, [&](const ModelGraph& g) { check_graph(g, &names, opsets, here, depth + 1); });
      check_operator(node, opsets, here);
      if (!packed_.empty()) follow_packed(node, opsets, here);
      for (const std::string& out : node.outputs) {
        if (out.empty()) continue;
        bool again = producers[out] != static_cast<int>(k) || std::count(node.outputs.begin(), node.outputs.end(), out) > 1;
        if (again)
          report(here, concat("output ", quoted(out), " is already produced by node #", producers[out]));
        else if (names.has(out) && !unsorted)
          report(here, concat("output ", quoted(out), " has the name of another value"));
        names.own.insert(out);
      }
    }
  }

  // Numbers of 2 and 4 bits are read as numbers of 8. What is quantised to them would end at other bounds.
  void follow_packed(const Node& node, const Opsets& opsets, const std::string& here) {
    const auto is_packed = [&](const std::string& name) { return packed_.count(name) > 0; };
    if (node.domain.empty() && node.op_type == "QuantizeLinear") {
      if (node.inputs.size() < 3 || !is_packed(node.inputs[2])) return;
      const auto opset = opsets.find("");
      return report_node(here, node, opset == opsets.end() ? 0 : opset->second,
                         concat("it quantises to numbers of less than 8 bits, as its zero point ", quoted(node.inputs[2]),
                                " is one; that is not supported"),
                         "quantise to int8 or uint8");
    }
    static const std::set<std::string> ends = {"DequantizeLinear", "Cast", "Shape", "Size"};
    if (std::none_of(node.inputs.begin(), node.inputs.end(), is_packed) || ends.count(node.op_type)) return;
    packed_.insert(node.outputs.begin(), node.outputs.end());
  }

  // A name used before it is produced: a cycle, or nodes in a wrong order.
  void report_disorder(const std::vector<Node>& nodes, const std::unordered_map<std::string, int>& producers,
                       const std::string& name, int user, int producer, const std::string& here) {
    // Follow inputs backwards from the producer; the path that comes back to the user is the cycle.
    std::unordered_map<int, std::pair<int, std::string>> came_from;  // node -> (its consumer on the path, the value)
    std::vector<int> stack = {producer};
    came_from[producer] = {user, name};
    bool cycle = producer == user;
    while (!stack.empty() && !cycle) {
      int at = stack.back();
      stack.pop_back();
      std::set<std::string> reads(nodes[at].inputs.begin(), nodes[at].inputs.end());
      for_each_subgraph(nodes[at], [&](const ModelGraph& g) { outer_reads(g, reads); });
      for (const std::string& read : reads) {
        auto found = producers.find(read);
        if (found == producers.end() || came_from.count(found->second)) continue;
        came_from[found->second] = {at, read};
        if (found->second == user)
          cycle = true;
        else
          stack.push_back(found->second);
      }
    }
    if (!cycle) {
      report(here, concat("input ", quoted(name), " is produced later, by node #", producer,
                          "; nodes must stand in the order of their use"));
      return;
    }
    std::string path;
    int length = 0;
    for (int at = user; length < 12; ++length) {
      auto [consumer, value] = came_from[at];
      path += (path.empty() ? "" : " -> ") + quoted(value);
      at = consumer;
      if (at == user) break;
    }
    report(here, "the nodes form a cycle: " + path + (length >= 12 ? " -> ..." : ""));
  }

  void check_operator(const Node& node, const Opsets& opsets, const std::string& here) {
    for (const ModelFunction& f : model_.functions)
      if (f.name == node.op_type && f.domain == node.domain && f.overload == node.overload) {
        if (called_.insert(&f).second) calls_.push_back(&f);
        return;
      }
    auto import = opsets.find(node.domain);
    if (import == opsets.end()) {
      if (!opsets.empty())
        report_once(here, node, 0,
                    concat("the model imports no opset of domain ", display_domain(node.domain), ", which op ",
                           quoted(node.op_type), " is of"),
                    "add the domain to the model's opset_import");
      return;
    }
    if (node.domain.empty() && (import->second > newest_opset || import->second < 1)) return;
    const OpSchema* schema = find_operator(node.domain, node.op_type);
    if (!schema)
      return report_once(here, node, import->second, unknown_operator(node, import->second),
                         "give the operator as a function of the model (local function), write it in others, or export to "
                         "an opset whose operators are known");
    try {
      check_node(node, *schema, import->second);
    } catch (const CompileError& e) {
      report_node(here, node, import->second, e.diagnostic.message,
                  "write the node as ONNX's opset of the model has it, or export the model again");
    }
  }

  // A model with a thousand unknown operators of one kind gets one line.
  void report_once(const std::string& here, const Node& node, int64_t opset, const std::string& message,
                   const std::string& advice) {
    auto [place, fresh] = repeated_.insert({message, {problems_.size(), 0}});
    ++place->second.second;
    if (fresh) report_node(here, node, opset, message, advice);
  }

  const Model& model_;
  std::vector<Finding>& problems_;
  std::map<std::string, std::pair<size_t, int>> repeated_;
  std::set<const ModelFunction*> called_;
  std::vector<const ModelFunction*> calls_;
  std::set<std::string> packed_;  // values of types of 2 and 4 bits
};

}  // namespace

std::vector<Finding> check_model(const Model& model) {
  std::vector<Finding> problems;
  Checker(model, problems).check();
  return problems;
}

}  // namespace metac
