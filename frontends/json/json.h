// The JSON IR: the Model AST as a document that people write. docs/json_ir.md is its reference.
//
// Every error names file, line and column: "conv.json:12:7: ...". What the writer prints, the reader reads back to an
// equal Model, bit for bit.
#pragma once
#include <string>
#include <string_view>

#include "compiler/ops/model.h"

namespace metac {

constexpr int64_t json_ir_version = 1;

Model read_json_model(const std::string& path);
// `path` serves messages; files that the document names are looked for in its folder.
Model read_json_model(std::string_view text, const std::string& path);

struct JsonWriteOptions {
  int64_t readable_elements = 64;            // tensors up to this size are written as numbers, larger ones as base64
  int64_t inline_limit = int64_t{64} << 20;  // above this many bytes in all, tensors go to one file beside the document
};
void write_json_model(const Model& model, const std::string& path, const JsonWriteOptions& options = {});
std::string to_json_text(const Model& model, const JsonWriteOptions& options = {});

}  // namespace metac
