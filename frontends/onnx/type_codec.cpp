// Types of values: tensors, and the containers around them from the outside in.
#include "compiler/ops/onnx_dtypes.h"
#include "compiler/support/diagnostic.h"
#include "frontends/onnx/wire.h"

namespace metac {
namespace {

void decode_into(const wire::Type& proto, ValueType& type);

// Names that exporters write for "not known": two dims of such a name need not be equal.
bool is_no_name(const std::string& name) { return name == "?" || name == "-1" || name == "None"; }

void decode_tensor_type(const wire::Type::TensorType& proto, const char* container, ValueType& type) {
  type.containers.push_back(container);
  type.onnx_dtype = proto.elem_type();
  type.dtype = dtype_of_onnx_number(proto.elem_type());
  if (!proto.has_shape()) return;
  type.shape.emplace();
  for (const wire::Dimension& dim : proto.shape().dim()) {
    ModelDim out;
    if (dim.value_case() == wire::Dimension::kDimValue) {
      // Some exporters write -1 for an open dim.
      if (dim.dim_value() < -1) fail("dim ", type.shape->size(), " is ", dim.dim_value(), ", a dim cannot be negative");
      out.value = dim.dim_value();
    } else if (!is_no_name(dim.dim_param())) {
      out.symbol = dim.dim_param();
    }
    type.shape->push_back(std::move(out));
  }
}

void decode_into(const wire::Type& proto, ValueType& type) {
  switch (proto.value_case()) {
    case wire::Type::kTensorType:
      return decode_tensor_type(proto.tensor_type(), "tensor", type);
    case wire::Type::kSparseTensorType:
      return decode_tensor_type(proto.sparse_tensor_type(), "sparse_tensor", type);
    case wire::Type::kSequenceType:
      type.containers.push_back("sequence");
      return decode_into(proto.sequence_type().elem_type(), type);
    case wire::Type::kOptionalType:
      type.containers.push_back("optional");
      return decode_into(proto.optional_type().elem_type(), type);
    case wire::Type::kMapType:
      type.containers.push_back("map");
      type.onnx_key_dtype = proto.map_type().key_type();
      return decode_into(proto.map_type().value_type(), type);
    case wire::Type::kOpaqueType:
      type.containers.push_back("opaque");
      return;
    case wire::Type::VALUE_NOT_SET:
      return;
  }
}

void encode_from(const ValueType& type, size_t level, wire::Type& proto) {
  if (level == type.containers.size()) return;
  const std::string& container = type.containers[level];
  if (container == "sequence") return encode_from(type, level + 1, *proto.mutable_sequence_type()->mutable_elem_type());
  if (container == "optional") return encode_from(type, level + 1, *proto.mutable_optional_type()->mutable_elem_type());
  if (container == "opaque") return static_cast<void>(proto.mutable_opaque_type());
  if (container == "map") {
    proto.mutable_map_type()->set_key_type(type.onnx_key_dtype);
    return encode_from(type, level + 1, *proto.mutable_map_type()->mutable_value_type());
  }
  wire::Type::TensorType& tensor =
      *(container == "tensor" ? proto.mutable_tensor_type() : proto.mutable_sparse_tensor_type());
  tensor.set_elem_type(type.dtype ? onnx_number_of(*type.dtype) : type.onnx_dtype);
  if (!type.shape) return;
  wire::TensorShape& shape = *tensor.mutable_shape();
  for (const ModelDim& dim : *type.shape) {
    wire::Dimension& out = *shape.add_dim();
    if (dim.value >= 0)
      out.set_dim_value(dim.value);
    else if (!dim.symbol.empty())
      out.set_dim_param(dim.symbol);
  }
}

}  // namespace

ValueType decode_type(const wire::Type& proto) {
  ValueType type;
  type.containers.clear();
  decode_into(proto, type);
  if (type.containers.empty()) type.containers.push_back("tensor");  // a value without a type: in practice a tensor
  return type;
}

void encode_type(const ValueType& type, wire::Type& proto) { encode_from(type, 0, proto); }

}  // namespace metac
