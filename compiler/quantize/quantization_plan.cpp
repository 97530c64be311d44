#include "compiler/quantize/quantization_plan.h"

#include <algorithm>

#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

const std::set<std::string> contractions = {"Conv", "ConvTranspose", "Gemm", "MatMul"};
// Their result lies in the range of their first operand and consists of its elements: they move integers as well.
const std::set<std::string> movers = {"Reshape",  "Flatten", "Transpose", "Squeeze", "Unsqueeze",
                                      "Identity", "MaxPool", "Slice",     "Split",   "Dropout"};
// Worth integers where all they read is stored so already.
const std::set<std::string> followers = {
    "Add",    "Mul",      "Sub",       "Concat",      "AveragePool", "GlobalAveragePool", "GlobalMaxPool",
    "Relu",   "Clip",     "LeakyRelu", "HardSigmoid", "HardSwish",   "Sigmoid",           "Tanh",
    "Resize", "Upsample", "Pad",       "MaxPool",     "ReduceMean",  "DepthToSpace",      "SpaceToDepth"};
// What a contraction's epilogue computes before its result is stored: the value in between is not.
const std::set<std::string> activations = {"Relu", "Clip"};

class Planner {
 public:
  Planner(const ModelGraph& graph, const std::map<std::string, KnownType>& types, bool per_tensor, const NodePatterns& keep,
          const std::set<int>& kept)
      : graph_(graph), uses_(graph), types_(types), per_tensor_(per_tensor) {
    for (size_t i = 0; i < graph.nodes.size(); ++i)
      if (kept.count(static_cast<int>(i)) || keep.match(graph.nodes[i].name, graph.nodes[i].op_type))
        plan_.kept.insert(static_cast<int>(i));
  }

  QuantizationPlan plan() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      if (is_one_of(contractions, static_cast<int>(i))) want_operands(static_cast<int>(i));
    // Through what reads nothing but integers, and back through what moves them, until nothing is added.
    for (size_t before = ~size_t{0}; before != wanted_.size();) {
      before = wanted_.size();
      for (size_t i = 0; i < graph_.nodes.size(); ++i) follow(static_cast<int>(i));
      for (size_t i = graph_.nodes.size(); i-- > 0;) follow_back(static_cast<int>(i));
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) move_integers(static_cast<int>(i));
    for (const Value& input : graph_.inputs)
      if (wanted_.count(input.name)) plan_.values.push_back(input.name);
    for (const Node& node : graph_.nodes)
      for (const std::string& name : node.outputs)
        if (wanted_.count(name) && !plan_.moved.count(name)) plan_.values.push_back(name);
    return std::move(plan_);
  }

 private:
  const Node& node(int i) const { return graph_.nodes[static_cast<size_t>(i)]; }
  bool is_one_of(const std::set<std::string>& operators, int i) const {
    return node(i).domain.empty() && operators.count(node(i).op_type) && !plan_.kept.count(i);
  }
  // A Dropout that may be on computes.
  bool moves(int i) const { return is_one_of(movers, i) && (node(i).op_type != "Dropout" || node(i).inputs.size() < 3); }
  bool is_float(const std::string& name) const {
    const auto found = types_.find(name);
    return found != types_.end() && found->second.dtype == DType::f32;
  }
  int rank_of(const std::string& name) const {
    const auto found = types_.find(name);
    return found == types_.end() ? -1 : found->second.rank;
  }
  void want(const std::string& name) {
    if (is_float(name) && !uses_.constant(name)) wanted_.insert(name);
  }
  int only_reader(const std::string& name) const {
    const std::vector<int>& readers = uses_.readers_of(name);
    return readers.size() == 1 && uses_.stays_inside(name) ? readers[0] : -1;
  }
  // Behind the activation that alone reads the value.
  std::string settled(const std::string& name) const {
    const int reader = only_reader(name);
    return reader >= 0 && is_one_of(activations, reader) ? node(reader).outputs[0] : name;
  }

  void want_operands(int i) {
    const Node& n = node(i);
    if (n.inputs.size() < 2 || !is_float(n.inputs[0]) || !is_float(n.inputs[1])) return;
    const bool constant[2] = {uses_.float_constant(n.inputs[0]) != nullptr, uses_.float_constant(n.inputs[1]) != nullptr};
    if (constant[0] && constant[1]) return;
    ++plan_.contractions;
    for (int k = 0; k < 2; ++k) {
      if (constant[k])
        plan_.weights.push_back(weight_of(i, k));
      else
        want(n.inputs[static_cast<size_t>(k)]);
    }
    // Convolutions of integers to float are in few engines, so that their result is stored in 8 bits whoever reads it.
    if (n.op_type == "Conv" || n.op_type == "ConvTranspose")
      if (const std::string result = settled(n.outputs[0]); !uses_.outputs.count(result)) want(result);
  }

  PlannedWeight weight_of(int i, int operand) const {
    const Node& n = node(i);
    PlannedWeight weight{i, operand, -1, -1, n.inputs[static_cast<size_t>(1 - operand)]};
    const Tensor& tensor = *uses_.constant(n.inputs[static_cast<size_t>(operand)]);
    const int rank = static_cast<int>(tensor.shape.size());
    const auto integer = [&](const char* name, int64_t otherwise) {
      const auto found = n.attributes.find(name);
      return found == n.attributes.end() ? otherwise : found->second.integer;
    };
    if (operand == 1 && rank >= 2) {
      if (n.op_type == "Conv") weight.axis = 0;
      if (n.op_type == "ConvTranspose" && integer("group", 1) == 1) weight.axis = 1;
      if (n.op_type == "Gemm") weight.axis = integer("transB", 0) != 0 ? 0 : 1;
      if (n.op_type == "MatMul") weight.axis = rank - 1;
    }
    if (per_tensor_) weight.axis = -1;
    if (operand == 1 && n.inputs.size() > 2 && n.op_type != "MatMul") {
      const Tensor* bias = uses_.float_constant(n.inputs[2]);
      const bool fits = bias && bias->shape.size() == 1 &&
                        (weight.axis < 0 || bias->shape[0] == tensor.shape[static_cast<size_t>(weight.axis)]);
      if (fits) weight.bias_operand = 2;
    }
    if (operand == 1 && n.op_type == "MatMul" && rank == 2) weight.addition = addition_behind(n, tensor.shape[1]);
    return weight;
  }

  int addition_behind(const Node& product, int64_t columns) const {
    const int reader = only_reader(product.outputs[0]);
    if (reader < 0 || !is_one_of({"Add"}, reader)) return -1;
    for (const std::string& name : node(reader).inputs)
      if (const Tensor* bias = uses_.float_constant(name);
          bias && !bias->shape.empty() && bias->shape.back() == columns && bias->element_count() == columns)
        return reader;
    return -1;
  }

  bool reads_wanted(const std::string& name) const { return wanted_.count(name) > 0; }

  void follow(int i) {
    if (!moves(i) && !is_one_of(followers, i)) return;
    const Node& n = node(i);
    bool any = false;
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      const std::string& name = n.inputs[k];
      if (name.empty() || !is_float(name)) continue;
      const bool parameter = uses_.constant(name) && k > 0 &&
                             (n.op_type == "Clip" || n.op_type == "Pad" || n.op_type == "Resize" ||
                              n.op_type == "Upsample" || n.op_type == "Dropout");
      if (parameter) continue;
      if (!reads_wanted(name)) return;  // an addition of constants is part of the epilogue before it
      any = true;
    }
    if (!any) return;
    for (const std::string& output : n.outputs) {
      const std::string result = settled(output);
      const std::vector<int>& readers = uses_.readers_of(result);
      const bool useful = std::any_of(readers.begin(), readers.end(), [&](int reader) {
        return is_one_of(contractions, reader) || moves(reader) || is_one_of(followers, reader);
      });
      if (useful) want(result);
    }
  }

  // What is moved before a contraction reads it is quantised before it is moved.
  void follow_back(int i) {
    if (!moves(i) || node(i).outputs.size() != 1 || !reads_wanted(node(i).outputs[0])) return;
    if (only_reader(node(i).inputs[0]) == i) want(node(i).inputs[0]);
  }

  void move_integers(int i) {
    const Node& n = node(i);
    if (!moves(i) || !reads_wanted(n.inputs[0])) return;
    for (const std::string& output : n.outputs) {
      if (output.empty()) continue;
      if (!reads_wanted(output) || !uses_.stays_inside(output)) return;
      for (int reader : uses_.readers_of(output))
        if (plan_.kept.count(reader)) return;
    }
    const auto moved = plan_.moved.find(n.inputs[0]);
    const std::string root = moved == plan_.moved.end() ? n.inputs[0] : moved->second;
    for (const std::string& output : n.outputs)
      if (!output.empty()) plan_.moved[output] = root;
    plan_.movers.insert(i);
  }

  const ModelGraph& graph_;
  const GraphUses uses_;
  const std::map<std::string, KnownType>& types_;
  const bool per_tensor_;
  std::set<std::string> wanted_;
  QuantizationPlan plan_;
};

}  // namespace

QuantizationPlan plan_quantization(const ModelGraph& graph, const std::map<std::string, KnownType>& types, bool per_tensor,
                                   const NodePatterns& keep, const std::set<int>& kept) {
  return Planner(graph, types, per_tensor, keep, kept).plan();
}

}  // namespace metac
