#include "frontends/onnx/training_info.h"

#include "compiler/support/diagnostic.h"
#include "compiler/support/file_system.h"
#include "frontends/onnx/wire.h"

namespace metac {
namespace {

using Bindings = std::vector<std::pair<std::string, std::string>>;
using Entries = google::protobuf::RepeatedPtrField<wire::Entry>;

Bindings decode_bindings(const Entries& entries) {
  Bindings out;
  for (const wire::Entry& entry : entries) out.emplace_back(entry.key(), entry.value());
  return out;
}

void encode_bindings(const Bindings& bindings, Entries& entries) {
  for (const auto& [key, value] : bindings) {
    wire::Entry& entry = *entries.Add();
    entry.set_key(key);
    entry.set_value(value);
  }
}

}  // namespace

std::vector<TrainingInfo> read_training_info(std::string_view onnx, const std::string& path) {
  wire::Model proto;
  parse_message(onnx, path, "an ONNX model", proto);
  std::vector<TrainingInfo> infos;
  try {
    for (wire::TrainingInfo& info : *proto.mutable_training_info())
      infos.push_back({decode_graph(*info.mutable_initialization(), parent_folder(path)),
                       decode_graph(*info.mutable_algorithm(), parent_folder(path)),
                       decode_bindings(info.initialization_binding()), decode_bindings(info.update_binding())});
  } catch (CompileError& error) {
    if (error.diagnostic.file.empty())
      throw CompileError({path, error.diagnostic.node, "training info: " + error.diagnostic.message});
    throw;
  }
  return infos;
}

std::string add_training_info(std::string_view onnx, const TrainingInfo& info) {
  wire::Model proto;
  parse_message(onnx, "", "an ONNX model", proto);
  wire::TrainingInfo& added = *proto.add_training_info();
  encode_graph(info.initialization, *added.mutable_initialization());
  encode_graph(info.algorithm, *added.mutable_algorithm());
  encode_bindings(info.initialization_bindings, *added.mutable_initialization_binding());
  encode_bindings(info.update_bindings, *added.mutable_update_binding());
  return proto.SerializeAsString();
}

}  // namespace metac
