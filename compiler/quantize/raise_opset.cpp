#include "compiler/quantize/raise_opset.h"

#include "compiler/ops/model_lowering.h"
#include "compiler/quantize/graph_uses.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

constexpr int64_t oldest = 11, wanted = 13;

[[noreturn]] void refuse(const Model& model, const std::string& node, const std::string& why) {
  throw CompileError({model.path, node,
                      concat(why, "; export the model with opset 13 or a newer one, or convert it with "
                                  "onnx.version_converter")});
}

}  // namespace

void raise_opset(Model& model, const std::map<std::string, KnownType>& types) {
  model.ir_version = std::max<int64_t>(model.ir_version, 7);
  int64_t& opset = model.opset_imports[""];
  if (opset >= wanted) return;
  if (opset < oldest)
    refuse(model, "", concat("quantised weights need opset 13, the model has ", opset, ", and models are raised from 11 on"));
  FreshNames fresh(model);
  for (size_t i = 0; i < model.graph.nodes.size(); ++i) {
    Node& node = model.graph.nodes[i];
    if (!node.domain.empty()) continue;
    const std::string place = describe(node, static_cast<int>(i));
    for_each_subgraph(node, [&](const ModelGraph&) {
      refuse(model, place, concat("a node with a body is not raised from opset ", opset, " to 13"));
    });
    const bool split = node.op_type == "Split";
    if (node.op_type == "Squeeze" || node.op_type == "Unsqueeze" || node.op_type == "ReduceSum" || split) {
      const auto list = node.attributes.find(split ? "split" : "axes");  // an attribute then, an operand now
      if (list != node.attributes.end()) {
        const std::vector<int64_t> numbers = list->second.integers;
        const std::string name = fresh(node.outputs.at(0) + (split ? "_split" : "_axes"));
        model.graph.initializers.push_back(
            {name, make_tensor<int64_t>(DType::i64, {static_cast<int64_t>(numbers.size())}, numbers)});
        node.inputs.resize(1);
        node.inputs.push_back(name);
        node.attributes.erase(list);
      }
    } else if (node.op_type == "Softmax" || node.op_type == "LogSoftmax" || node.op_type == "Hardmax") {
      // All axes from `axis` on are one axis there; it is the same where that is the last.
      const auto type = types.find(node.inputs.at(0));
      const auto axis = node.attributes.find("axis");
      const int64_t at = axis == node.attributes.end() ? 1 : axis->second.integer;
      if (type == types.end() || (at != -1 && at != type->second.rank - 1))
        refuse(model, place, concat("its axis ", at, " means several axes in opset ", opset, " and cannot be said in 13"));
      node.attributes["axis"].integer = -1;
    }
  }
  opset = wanted;
}

}  // namespace metac
