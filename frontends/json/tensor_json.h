// Tensors in JSON documents: as numbers, as base64, or in a file beside the document.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "compiler/ops/model.h"
#include "frontends/json/document.h"
#include "frontends/json/json.h"

namespace metac {

// {"dtype": "float32", "shape": [2, 2], "data": [[1, 2], [3, 4]]} or "base64": "..." or "file": "w.npy" or "file", "offset".
// Takes those fields; the caller finishes the object. `folder` is where files are looked for.
Tensor tensor_of_json(JsonFields& fields, const std::string& folder);

// Where tensors go that are too large for the document: pieces of one file.
struct TensorFile {
  std::string name;  // as the document refers to it; empty: everything stays inside
  size_t size = 0;
  std::vector<std::string_view> pieces;
};

// A parameter whose elements are packed: the tensor is their bytes, "packs" their type ("int4") and "packed_shape" their
// shape.
std::optional<PackedNumbers> packed_of_json(JsonFields& fields, const Tensor& bytes);
std::string json_of_packed(const std::optional<PackedNumbers>& packed);
// The fields above as JSON text without the braces: "\"dtype\": ..., \"shape\": ..., \"data\": ...".
std::string json_of_tensor(const Tensor& tensor, const JsonWriteOptions& options, TensorFile* file);

std::string json_string(std::string_view text);  // quoted and escaped; the text is valid UTF-8
bool is_utf8(std::string_view text);
std::string json_real(double value, bool is_single);  // shortest that reads back; always with '.', 'e' or as "inf", "nan"
// "inf", "-inf", "nan" as strings or a number.
double real_of_json(const JsonDocument& document, const JsonValue& value, const std::string& what);

}  // namespace metac
