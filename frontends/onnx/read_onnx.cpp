// An ONNX file into the Model AST.
#include "compiler/support/file_system.h"
#include "frontends/onnx/graph_codec.h"
#include "frontends/onnx/lean_message.h"

namespace metac {

namespace {

Model decode_model(wire::Model& proto, const std::string& path, const std::map<int, FileBytes>& left_out) {
  Model model;
  model.path = path;
  std::string folder = parent_folder(path);
  try {
    if (!proto.has_graph()) fail("the model has no graph");
    model.ir_version = proto.ir_version();
    if (model.ir_version < 0) fail("IR version ", model.ir_version, " is not known");
    if (model.ir_version > newest_ir_version)
      fail("IR version ", model.ir_version, " is newer than ", newest_ir_version, ", the newest this build knows");
    model.producer = proto.producer_name();
    model.producer_version = proto.producer_version();
    model.domain = proto.domain();
    model.doc = proto.doc_string();
    model.model_version = proto.model_version();
    model.opset_imports = decode_opsets(proto.opset_import());
    if (model.opset_imports.empty()) {
      // Before IR version 3 there was one operator set and no field to name it.
      if (model.ir_version == 0 || model.ir_version >= 3) fail("the model has no opset_import");
      model.opset_imports[""] = 1;
    }
    for (const wire::Entry& entry : proto.metadata_props()) model.metadata[entry.key()] = entry.value();
    for (wire::Function& function : *proto.mutable_functions()) model.functions.push_back(decode_function(function, folder));
    model.graph = decode_graph(*proto.mutable_graph(), folder, left_out);
  } catch (CompileError& error) {
    Diagnostic d = error.diagnostic;
    if (!d.file.empty()) d.message = d.file + ": " + d.message;  // a file beside the model
    d.file = path;
    throw CompileError(std::move(d));
  }
  return model;
}

}  // namespace

Model read_onnx(const std::string& path) {
  const RegularFile file(path);
  wire::Model proto;
  std::optional<LeanMessage> lean;
  if (file.size() > 0 && file.size() <= INT32_MAX) lean = read_lean_message(file);
  // Where the parser refuses it, the whole of it says why.
  if (!lean || !parses(lean->bytes, proto)) return read_onnx(read_file(path).view(), path);
  lean->bytes.clear();
  return decode_model(proto, path, lean->left_out);
}

Model read_onnx(std::string_view bytes, const std::string& path) {
  wire::Model proto;
  parse_message(bytes, path, "an ONNX model", proto);
  return decode_model(proto, path, {});
}

}  // namespace metac
