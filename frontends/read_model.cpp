#include "frontends/read_model.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "compiler/ops/defined/operator_definition.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/file_kind.h"
#include "compiler/support/file_system.h"
#include "compiler/support/hashing.h"
#include "frontends/given_operators.h"
#include "frontends/json/json.h"
#include "frontends/onnx/onnx.h"

namespace metac {
namespace {

std::optional<ModelFormat> format_of_ending(const std::string& path) {
  if (path.ends_with(".json")) return ModelFormat::json;
  if (path.ends_with(".onnx") || path.ends_with(".pb")) return ModelFormat::onnx;
  return std::nullopt;
}

ModelFormat format_of_content(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{' ? ModelFormat::json : ModelFormat::onnx;
}

}  // namespace

static Model read_unchanged(const std::string& path) {
  const std::optional<ModelFormat> named = format_of_ending(path);
  if (named == ModelFormat::onnx) return read_onnx(path);
  FileBytes bytes = read_file(path);
  ModelFormat format = named.value_or(format_of_content(bytes.view()));
  if (format == ModelFormat::json && format_of_content(bytes.view()) != ModelFormat::json)
    if (const std::string kind = known_file_kind(bytes.view()); !kind.empty())
      throw CompileError({path, "", "not a JSON IR document: it is " + kind});
  return format == ModelFormat::json ? read_json_model(bytes.view(), path) : read_onnx(bytes.view(), path);
}

Model read_model(const std::string& path) {
  Model model = read_unchanged(path);
  add_called(model, given_operators());
  return model;
}

Model read_hashed_model(const std::string& path) {
  Model model = read_model(path);
  const RegularFile file(path);
  std::vector<char> part(size_t{1} << 20);
  Sha256 hash;
  for (size_t at = 0, bytes = 0; at < file.size(); at += bytes) {
    bytes = std::min(part.size(), file.size() - at);
    file.read_into(at, bytes, part.data());
    hash.update({part.data(), bytes});
  }
  model.sha256 = hash.hex();
  return model;
}

Model read_model_bytes(std::string_view bytes) {
  Model model = format_of_content(bytes) == ModelFormat::json ? read_json_model(bytes, "") : read_onnx(bytes, "");
  add_called(model, given_operators());
  return model;
}

ModelFormat format_of_path(const std::string& path) {
  std::optional<ModelFormat> format = format_of_ending(path);
  if (!format) throw CompileError(Diagnostic{path, "", "a model's name ends in .onnx or .json"});
  return *format;
}

}  // namespace metac
