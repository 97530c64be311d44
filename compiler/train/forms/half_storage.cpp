#include "compiler/train/forms/half_storage.h"

#include <map>
#include <set>

#include "compiler/ir/expr_table.h"
#include "compiler/ops/lower_model.h"
#include "compiler/support/diagnostic.h"
#include "compiler/train/node_writer.h"

namespace metac {
namespace {

// Operators that compute in the dtype of their operands, and how many of those are data (the rest stays as it is): 0 is all.
const std::map<std::string, size_t>& half_operators() {
  static const std::map<std::string, size_t> table = {{"Conv", 0},
                                                      {"ConvTranspose", 0},
                                                      {"Gemm", 0},
                                                      {"MatMul", 0},
                                                      {"Relu", 0},
                                                      {"LeakyRelu", 0},
                                                      {"PRelu", 0},
                                                      {"Clip", 0},
                                                      {"HardSwish", 0},
                                                      {"HardSigmoid", 0},
                                                      {"Sigmoid", 0},
                                                      {"Tanh", 0},
                                                      {"Gelu", 0},
                                                      {"Erf", 0},
                                                      {"Elu", 0},
                                                      {"Selu", 0},
                                                      {"Mish", 0},
                                                      {"Add", 0},
                                                      {"Sub", 0},
                                                      {"Mul", 0},
                                                      {"Div", 0},
                                                      {"Neg", 0},
                                                      {"MaxPool", 0},
                                                      {"AveragePool", 0},
                                                      {"GlobalAveragePool", 0},
                                                      {"GlobalMaxPool", 0},
                                                      {"Concat", 0},
                                                      {"Reshape", 0},
                                                      {"Flatten", 0},
                                                      {"Transpose", 0},
                                                      {"Squeeze", 0},
                                                      {"Unsqueeze", 0},
                                                      {"Slice", 0},
                                                      {"Split", 0},
                                                      {"Gather", 0},
                                                      {"Pad", 0},
                                                      {"Identity", 0},
                                                      {"Expand", 0},
                                                      {"DepthToSpace", 0},
                                                      {"SpaceToDepth", 0},
                                                      {"LayerNormalization", 0},
                                                      {"Dropout", 1},
                                                      {"BatchNormalization", 1}};
  return table;
}

class Halver {
 public:
  Halver(Model& model, DType half) : model_(model), half_(half), write_(model) {}

  std::string run() {
    note_types();
    std::vector<Node> nodes;
    nodes.swap(model_.graph.nodes);
    for (Node& node : nodes) {
      if (converts(node))
        convert(node);
      else
        model_.graph.nodes.push_back(std::move(node));
    }
    return concat(converted_, " nodes compute in ", name_of(half_), ", ", nodes.size() - static_cast<size_t>(converted_),
                  " in the file's types");
  }

 private:
  void note_types() {
    for (const Value& input : model_.graph.inputs)
      if (input.type.dtype) types_[input.name] = *input.type.dtype;
    for (const Initializer& i : model_.graph.initializers) types_[i.name] = i.tensor.dtype;
    const ExprScope scope;
    const std::unique_ptr<Graph> graph = lower_model(model_, {});
    for (const auto& var : graph->vars())
      if (!var->name.empty()) types_[var->name] = var->dtype();
    for (const Node& node : model_.graph.nodes) {  // whose values have no names there
      if (!is_operator(node, "Constant")) continue;
      if (const auto value = node.attributes.find("value"); value != node.attributes.end() && !value->second.tensors.empty())
        types_[node.outputs[0]] = value->second.tensors[0].dtype;
      if (node.attributes.count("value_float") + node.attributes.count("value_floats")) types_[node.outputs[0]] = DType::f32;
    }
  }

  bool is_single(const std::string& name) const {
    auto found = types_.find(name);
    return found != types_.end() && found->second == DType::f32;
  }

  bool converts(const Node& node) const {
    if (!node.domain.empty() || !half_operators().count(node.op_type) || node.inputs.empty() || !is_single(node.inputs[0]) ||
        node.outputs.empty())
      return false;
    for (size_t k = 1; k < node.outputs.size(); ++k)
      if (!node.outputs[k].empty() && node.op_type != "Split") return false;
    return true;
  }

  std::string halved(const std::string& name) {
    auto [entry, fresh] = halves_.try_emplace(name);
    if (fresh) entry->second = write_.cast(name, half_, name + "/half");
    return entry->second;
  }

  void convert(Node& node) {
    const size_t data = half_operators().at(node.op_type);
    for (size_t k = 0; k < node.inputs.size() && (data == 0 || k < data); ++k)
      if (is_single(node.inputs[k])) node.inputs[k] = halved(node.inputs[k]);
    std::vector<std::string> singles;
    for (std::string& output : node.outputs) {
      singles.push_back(output);
      if (!output.empty()) output = halves_[output] = write_.fresh(output + "/half");
    }
    const std::vector<std::string> outputs = node.outputs;
    model_.graph.nodes.push_back(std::move(node));
    for (size_t k = 0; k < outputs.size(); ++k)
      if (!singles[k].empty())
        write_.add("metac", "cast", {outputs[k]}, {singles[k]}).attributes["dtype"] = string_attribute("float32");
    ++converted_;
  }

  Model& model_;
  DType half_;
  NodeWriter write_;
  std::map<std::string, DType> types_;
  std::map<std::string, std::string> halves_;  // a value's name in half precision
  int converted_ = 0;
};

}  // namespace

std::string store_in_half(Model& model, DType half) { return Halver(model, half).run(); }

}  // namespace metac
