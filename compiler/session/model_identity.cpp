#include "compiler/session/model_identity.h"

#include "compiler/ir/tensor_fields.h"

namespace metac {

void fields(ByteWriter& archive, ModelDim& dim) {
  auto& [value, symbol] = dim;
  archive(value, symbol);
}

void fields(ByteWriter& archive, ValueType& type) {
  auto& [containers, dtype, onnx_dtype, shape, onnx_key_dtype] = type;
  archive(containers, dtype, onnx_dtype, shape, onnx_key_dtype);
}

void fields(ByteWriter& archive, Value& value) {
  auto& [name, type] = value;
  archive(name, type);
}

void fields(ByteWriter& archive, Attribute& attribute) {
  auto& [kind, integer, real, string, integers, reals, strings, tensors, graphs, types, detail] = attribute;
  archive(kind, integer, real, string, integers, reals, strings, tensors, graphs, types, detail);
}

void fields(ByteWriter& archive, Node& node) {
  auto& [name, op_type, overload, domain, inputs, outputs, attributes, doc, metadata, line] = node;
  archive(name, op_type, overload, domain, inputs, outputs, attributes, metadata, line);
}

void fields(ByteWriter& archive, PackedNumbers& packed) {
  auto& [bits, is_signed, onnx_dtype, shape] = packed;
  archive(bits, is_signed, onnx_dtype, shape);
}

void fields(ByteWriter& archive, Initializer& initializer) {
  auto& [name, tensor, packed] = initializer;
  archive(name, tensor, packed);
}

void fields(ByteWriter& archive, ModelGraph& graph) {
  auto& [name, doc, inputs, outputs, value_info, initializers, nodes, metadata] = graph;
  archive(name, inputs, outputs, value_info, initializers, nodes, metadata);
}

void fields(ByteWriter& archive, ModelFunction& function) {
  auto& [domain, name, overload, inputs, outputs, attributes, attribute_defaults, opset_imports, nodes] = function;
  archive(domain, name, overload, inputs, outputs, attributes, attribute_defaults, opset_imports, nodes);
}

bool is_only_weights(const Initializer& initializer) {
  constexpr size_t least_bytes = 4096;
  return is_float(initializer.tensor.dtype) && initializer.tensor.byte_count() >= least_bytes;
}

std::string model_identity(const Model& model) {
  const auto& [path, sha256, ir_version, producer, producer_version, domain, doc, model_version, opset_imports, metadata,
               functions, graph] = model;
  ByteWriter writer;
  writer(ir_version, producer, producer_version, domain, model_version, opset_imports, metadata, functions);
  const auto& [name, graph_doc, inputs, outputs, value_info, initializers, nodes, graph_metadata] = graph;
  writer(name, inputs, outputs, value_info, nodes, graph_metadata, initializers.size());
  for (const Initializer& one : initializers)
    if (is_only_weights(one))
      writer(one.name, one.tensor.dtype, one.tensor.shape);
    else
      writer(one);
  return writer.bytes();
}

}  // namespace metac
