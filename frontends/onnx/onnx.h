// ONNX files to and from the Model AST, with our own minimal .proto (metac_onnx.proto): every opset and IR version up to the
// newest known, local functions, subgraphs, external and sparse data.
//
// Everything read here is untrusted. Errors are CompileErrors of one line that name the file and the tensor, node or
// attribute; bytes that are no protobuf message are answered with the offset at which they stop being one.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "compiler/ops/model.h"

namespace metac {

constexpr int64_t newest_ir_version = 14;

Model read_onnx(const std::string& path);
// `path` serves messages; external data is looked for in its folder.
Model read_onnx(std::string_view bytes, const std::string& path);

struct OnnxWriteOptions {
  // Tensors of at least this many bytes go to a file beside the model once all tensors together pass this limit
  // (a protobuf message ends at 2 GiB).
  int64_t inline_limit = int64_t{1900} << 20;
  int64_t external_from = int64_t{1} << 20;
};
void write_onnx(const Model& model, const std::string& path, const OnnxWriteOptions& options = {});
std::string to_onnx_bytes(const Model& model);
// For bytes of to_onnx_bytes: where the elements of each initialiser of the graph begin, row-major and little-endian; -1
// where they are not stored as raw bytes (strings) or there are none.
std::vector<int64_t> raw_data_offsets(std::string_view onnx);

// One serialised TensorProto, as ONNX's test cases store inputs and outputs; `name` receives the tensor's name.
Tensor read_tensor_proto(std::string_view bytes, const std::string& path, std::string* name = nullptr);
std::string to_tensor_proto_bytes(const Tensor& tensor, const std::string& name);

int32_t onnx_number_of(DType dtype);  // ONNX's number of an element type; the inverse of dtype_of_onnx_number()

}  // namespace metac
