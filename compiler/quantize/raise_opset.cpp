#include "compiler/quantize/raise_opset.h"

#include <set>

#include "compiler/ops/model_lowering.h"
#include "compiler/quantize/graph_uses.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

constexpr int64_t oldest = 11;

const std::set<std::string> axes_since_13 = {"Squeeze", "Unsqueeze", "ReduceSum"};
const std::set<std::string> axes_since_18 = {"ReduceMean", "ReduceMax",    "ReduceMin",       "ReduceProd",     "ReduceL1",
                                             "ReduceL2",   "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"};

class Raiser {
 public:
  Raiser(Model& model, const std::map<std::string, KnownType>& types, int64_t wanted)
      : model_(model), types_(types), opset_(model.opset_imports[""]), wanted_(wanted), fresh_(model) {}

  void raise() {
    if (opset_ < oldest)
      refuse("", concat("this form needs opset ", wanted_, ", the model has ", opset_, ", and models are raised from ",
                        oldest, " on"));
    for (size_t i = 0; i < model_.graph.nodes.size(); ++i) {
      Node& node = model_.graph.nodes[i];
      const std::string place = describe(node, static_cast<int>(i));
      for_each_subgraph(node, [&](const ModelGraph&) {
        refuse(place, concat("a node with a body is not raised from opset ", opset_, " to ", wanted_));
      });
      if (node.domain.empty()) raise(node, place);
    }
    model_.opset_imports[""] = wanted_;
  }

 private:
  [[noreturn]] void refuse(const std::string& node, const std::string& why) const {
    throw CompileError({model_.path, node,
                        concat(why, "; export the model with opset ", wanted_,
                               " or a newer one, or convert it with "
                               "onnx.version_converter")});
  }

  bool passes(int64_t opset) const { return opset_ < opset && wanted_ >= opset; }

  void raise(Node& node, const std::string& place) {
    if (passes(13)) {
      if (axes_since_13.count(node.op_type)) to_operand(node, "axes");
      if (node.op_type == "Split") to_operand(node, "split");
      if (node.op_type == "Softmax" || node.op_type == "LogSoftmax" || node.op_type == "Hardmax") raise_softmax(node, place);
    }
    if (passes(18)) {
      if (axes_since_18.count(node.op_type)) to_operand(node, "axes");
      if (node.op_type == "Split" && node.inputs.size() < 2)
        node.attributes["num_outputs"].integer = static_cast<int64_t>(node.outputs.size());
      if (node.op_type == "GroupNormalization" || node.op_type == "Resize")
        refuse(place, concat("it is not raised from opset ", opset_));
    }
  }

  // An attribute then, an operand now.
  void to_operand(Node& node, const char* name) {
    const auto list = node.attributes.find(name);
    if (list == node.attributes.end()) return;
    const std::vector<int64_t> numbers = list->second.integers;
    node.inputs.resize(1);
    node.inputs.push_back(fresh_(node.outputs.at(0) + "_" + name));
    model_.graph.initializers.push_back(
        {node.inputs[1], make_tensor<int64_t>(DType::i64, {static_cast<int64_t>(numbers.size())}, numbers)});
    node.attributes.erase(list);
  }

  // All axes from `axis` on were one axis; it is the same where that is the last.
  void raise_softmax(Node& node, const std::string& place) const {
    const auto type = types_.find(node.inputs.at(0));
    const auto axis = node.attributes.find("axis");
    const int64_t at = axis == node.attributes.end() ? 1 : axis->second.integer;
    if (type == types_.end() || (at != -1 && at != type->second.rank - 1))
      refuse(place, concat("its axis ", at, " means several axes in opset ", opset_, " and cannot be said in ", wanted_));
    node.attributes["axis"].integer = -1;
  }

  Model& model_;
  const std::map<std::string, KnownType>& types_;
  const int64_t opset_, wanted_;
  FreshNames fresh_;
};

}  // namespace

void raise_opset(Model& model, const std::map<std::string, KnownType>& types, int64_t wanted) {
  model.ir_version = std::max<int64_t>(model.ir_version, wanted >= opset_of_bfloat16 ? 10 : 7);
  if (model.opset_imports[""] < wanted) Raiser(model, types, wanted).raise();
}

}  // namespace metac
