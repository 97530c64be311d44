// Models from files of any kind that metac reads.
#pragma once
#include <string>
#include <string_view>

#include "compiler/ops/model.h"

namespace metac {

enum class ModelFormat { onnx, json };

// By the name's ending: ".json" is JSON, ".onnx" and ".pb" are ONNX. Otherwise by content: a text that starts with '{'
// (after blanks or a byte order mark) is JSON, anything else ONNX.
Model read_model(const std::string& path);
// With the hash of the file (Model::sha256), for what is to say later which model it was made of.
Model read_hashed_model(const std::string& path);
// The same of bytes in memory, by content. Files beside the model are refused: it has no folder.
Model read_model_bytes(std::string_view bytes);
// The format that a file to be written at `path` has; throws where the ending does not say.
ModelFormat format_of_path(const std::string& path);

}  // namespace metac
