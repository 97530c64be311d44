#include "compiler/quantize/row_tables.h"

#include <cmath>

#include "compiler/quantize/block_weights.h"
#include "compiler/quantize/write_qdq.h"
#include "frontends/onnx/onnx.h"

namespace metac {
namespace {

constexpr int64_t least_elements = 1 << 16;

class TableWriter {
 public:
  TableWriter(Model& model, const NodePatterns& keep, int bits, int64_t block)
      : before_(model), model_(model), keep_(keep), bits_(bits), block_(block), uses_(before_.graph), fresh_(before_) {}

  RowTables write() {
    model_.graph.nodes.clear();
    for (size_t i = 0; i < before_.graph.nodes.size(); ++i) {
      const Node& node = before_.graph.nodes[i];
      const Tensor* table = table_of(node);
      if (!table) {
        model_.graph.nodes.push_back(node);
        continue;
      }
      at_node(before_, static_cast<int>(i), [&] { bits_ == 4 ? in_blocks(node, *table) : in_rows(node, *table); });
      ++result_.count;
      result_.values.push_back(node.outputs[0]);
    }
    if (result_.count > 0) remove_unread(model_.graph, before_.graph);
    return result_;
  }

 private:
  const Tensor* table_of(const Node& node) const {
    if (node.op_type != "Gather" || !node.domain.empty() || node.inputs.size() != 2 || keep_.match(node.name, node.op_type))
      return nullptr;
    const auto axis = node.attributes.find("axis");
    if (axis != node.attributes.end() && axis->second.integer != 0) return nullptr;
    const Tensor* table = uses_.float_constant(node.inputs[0]);
    const bool fits = table && table->shape.size() == 2 && table->element_count() >= least_elements &&
                      (bits_ != 4 || table->shape[1] % block_ == 0);
    return fits ? table : nullptr;
  }

  std::string constant(const std::string& wanted, Tensor tensor) {
    model_.graph.initializers.push_back({fresh_(wanted), std::move(tensor)});
    return model_.graph.initializers.back().name;
  }
  Node& add(const char* op, std::vector<std::string> inputs, const std::string& output) {
    Node node;
    node.op_type = op;
    node.name = fresh_(output + "_" + op);
    node.inputs = std::move(inputs);
    node.outputs = {output};
    model_.graph.nodes.push_back(std::move(node));
    return model_.graph.nodes.back();
  }

  struct Stored {
    std::string integers, scales, zeros;
  };

  void in_rows(const Node& node, const Tensor& table) {
    const std::string& name = node.inputs[0];
    auto [stored, is_new] = stored_.try_emplace(name);
    if (is_new) {
      SymmetricWeights rows = symmetric_weights(table, 0, 127, {});
      rows.scales.shape.push_back(1);
      stored->second = {constant(name + "_quantized", rows.integers), constant(name + "_scale", rows.scales), ""};
    }
    const std::string integers = fresh_(node.outputs[0] + "_quantized"), whole = fresh_(node.outputs[0] + "_whole"),
                      scales = fresh_(node.outputs[0] + "_scale");
    add("Gather", {stored->second.integers, node.inputs[1]}, integers);
    add("Cast", {integers}, whole).attributes["to"].integer = onnx_number_of(DType::f32);
    add("Gather", {stored->second.scales, node.inputs[1]}, scales);
    add("Mul", {whole, scales}, node.outputs[0]);
  }

  void in_blocks(const Node& node, const Tensor& table) {
    const std::string& name = node.inputs[0];
    auto [stored, is_new] = stored_.try_emplace(name);
    if (is_new) {
      const std::vector<float> values(table.data<float>(), table.data<float>() + table.element_count());
      for (float value : values)
        if (!std::isfinite(value)) fail("an element of the table is ", value, ": weights must be finite");
      const BlockWeights w = round_to_blocks(values, table.shape[0], table.shape[1], bits_, block_);
      Tensor integers = w.packed(), zeros = w.packed_zeros();
      integers.shape = {w.columns, w.depth * bits_ / 8};
      zeros.shape = {w.columns, zeros.element_count() / w.columns};
      stored->second = {constant(name + "_quantized", integers),
                        constant(name + "_scale", make_tensor<float>(DType::f32, {w.columns, w.blocks()}, w.scales)),
                        constant(name + "_zero_point", zeros)};
    }
    Node& gather =
        add("GatherBlockQuantized", {stored->second.integers, node.inputs[1], stored->second.scales, stored->second.zeros},
            node.outputs[0]);
    gather.domain = "com.microsoft";
    for (auto [key, value] :
         {std::pair<const char*, int64_t>{"bits", bits_}, {"block_size", block_}, {"gather_axis", 0}, {"quantize_axis", 1}})
      gather.attributes[key].integer = value;
    model_.opset_imports.try_emplace("com.microsoft", 1);
  }

  const Model before_;
  Model& model_;
  const NodePatterns& keep_;
  const int bits_;
  const int64_t block_;
  const GraphUses uses_;
  FreshNames fresh_;
  std::map<std::string, Stored> stored_;
  RowTables result_;
};

}  // namespace

RowTables write_row_tables(Model& model, const NodePatterns& keep, int bits, int64_t block) {
  return TableWriter(model, keep, bits, block).write();
}

}  // namespace metac
