// The Model AST into an ONNX file; large models keep their tensors in one file beside it.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "compiler/support/file_system.h"
#include "frontends/onnx/graph_codec.h"

namespace metac {
namespace {

constexpr size_t external_alignment = 4096;  // so that a part can be mapped on its own

wire::Model to_proto(const Model& model) {
  wire::Model proto;
  proto.set_ir_version(model.ir_version);
  proto.set_producer_name(model.producer);
  proto.set_producer_version(model.producer_version);
  proto.set_domain(model.domain);
  proto.set_model_version(model.model_version);
  proto.set_doc_string(model.doc);
  encode_opsets(model.opset_imports, *proto.mutable_opset_import());
  for (const auto& [key, value] : model.metadata) {
    wire::Entry& entry = *proto.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
  for (const ModelFunction& function : model.functions) encode_function(function, *proto.add_functions());
  encode_graph(model.graph, *proto.mutable_graph());
  return proto;
}

std::string serialize(const wire::Model& proto, const std::string& path) {
  if (proto.ByteSizeLong() > INT32_MAX)
    throw CompileError(
        Diagnostic{path, "", concat("would take ", proto.ByteSizeLong(), " bytes; a protobuf message ends at 2 GiB")});
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    proto.SerializeToCodedStream(&coded);
  }
  return bytes;
}

void add_entry(wire::Tensor& tensor, const char* key, const std::string& value) {
  wire::Entry& entry = *tensor.add_external_data();
  entry.set_key(key);
  entry.set_value(value);
}

}  // namespace

std::string to_onnx_bytes(const Model& model) { return serialize(to_proto(model), model.path); }

void write_onnx(const Model& model, const std::string& path, const OnnxWriteOptions& options) {
  int64_t total = 0;
  for (const Initializer& initializer : model.graph.initializers)
    if (initializer.tensor.dtype != DType::string) total += static_cast<int64_t>(initializer.tensor.byte_count());
  if (total <= options.inline_limit) return write_file(path, to_onnx_bytes(model));

  // The tensors leave the AST's copy before it becomes a message, so that they are never copied.
  Model light = model;
  std::vector<std::string_view> pieces;
  static const std::string padding(external_alignment, '\0');
  std::vector<std::pair<size_t, size_t>> places(model.graph.initializers.size());  // offset, length
  size_t offset = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    const Tensor& tensor = model.graph.initializers[i].tensor;
    if (tensor.dtype == DType::string || static_cast<int64_t>(tensor.byte_count()) < options.external_from) continue;
    size_t size = tensor.byte_count(), gap = (external_alignment - offset % external_alignment) % external_alignment;
    pieces.emplace_back(padding.data(), gap);
    pieces.emplace_back(reinterpret_cast<const char*>(tensor.bytes.get()), size);
    places[i] = {offset + gap, size};
    offset += gap + size;
    light.graph.initializers[i].tensor = make_tensor<uint8_t>(tensor.dtype, {0}, {});
  }
  wire::Model proto = to_proto(light);
  std::string data_path = path + ".data";
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i].second == 0) continue;
    wire::Tensor& tensor = *proto.mutable_graph()->mutable_initializer(static_cast<int>(i));
    tensor.clear_dims();
    for (int64_t dim : model.graph.initializers[i].tensor.shape) tensor.add_dims(dim);
    tensor.clear_raw_data();
    tensor.set_data_location(external_location);
    add_entry(tensor, "location", file_name(data_path));
    add_entry(tensor, "offset", std::to_string(places[i].first));
    add_entry(tensor, "length", std::to_string(places[i].second));
  }
  std::string bytes = serialize(proto, path);
  write_file(data_path, pieces);
  write_file(path, bytes);
}

}  // namespace metac
