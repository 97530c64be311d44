// Attributes in JSON documents. Plain values say their type by how they are written, as far as the operator's schema does
// not say it: 1 is an integer, 1.0 a float. Everything else is an object with a "type".
#include <algorithm>

#include "compiler/support/base64.h"
#include "compiler/support/diagnostic.h"
#include "frontends/json/attribute_kinds.h"
#include "frontends/json/reading.h"
#include "frontends/json/tensor_json.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;
using Json = JsonValue::Kind;

bool is_integer_token(const JsonValue& value) {
  return value.is(Json::number) && value.text.find_first_of(".eE") == std::string::npos;
}

bool is_real_token(const JsonValue& value) {
  return value.is(Json::number) ||
         (value.is(Json::string) && (value.text == "inf" || value.text == "-inf" || value.text == "nan"));
}

Attribute integer_attribute(int64_t value) {
  Attribute out;
  out.integer = value;
  return out;
}

// An attribute of the kind that the schema or a "type" demands.
Attribute attribute_of_kind(const JsonSource& source, const JsonValue& value, Kind kind, const std::string& what) {
  const JsonDocument& document = source.document;
  Attribute out;
  out.kind = kind;
  auto items = [&]() -> const std::vector<JsonValue>& {
    expect(document, value, Json::array, what);
    return value.items;
  };
  switch (kind) {
    case Kind::integer:
      if (value.is(Json::boolean)) return integer_attribute(value.flag);
      return integer_attribute(expect_integer(document, value, what));
    case Kind::real:
      out.real = static_cast<float>(real_of_json(document, value, what));
      return out;  // ONNX's are float32
    case Kind::string:
      // An expression may be written as a number.
      out.string = value.is(Json::number) ? value.text : expect_string(document, value, what);
      return out;
    case Kind::integers:
      if (value.is(Json::number))
        out.integers.push_back(expect_integer(document, value, what));
      else
        for (const JsonValue& item : items()) out.integers.push_back(expect_integer(document, item, what));
      return out;
    case Kind::reals:
      for (const JsonValue& item : items()) out.reals.push_back(static_cast<float>(real_of_json(document, item, what)));
      return out;
    case Kind::strings:
      if (value.is(Json::string) || value.is(Json::number)) {
        out.strings.push_back(value.text);
        return out;
      }
      for (const JsonValue& item : items())
        out.strings.push_back(item.is(Json::number) ? item.text : expect_string(document, item, what));
      return out;
    default:
      document.refuse(value.offset, concat(what, " must be ", name_of_kind(kind), ": an object with a \"type\""));
  }
}

std::string bytes_of_json(const JsonDocument& document, const JsonValue& value) {
  if (!value.is(Json::object)) return expect_string(document, value, "a string");
  JsonFields fields(document, value, "a string of bytes");
  const JsonValue& base64 = fields.required("base64");
  std::optional<std::string> bytes = from_base64(expect_string(document, base64, "base64"));
  if (!bytes) document.refuse(base64.offset, "not base64");
  fields.finish();
  return *bytes;
}

// {"type": "tensor", ...} and the like; {"ref": "alpha"} in functions.
Attribute typed_attribute(const JsonSource& source, const JsonValue& value, const std::string& name) {
  const JsonDocument& document = source.document;
  JsonFields fields(document, value, concat("attribute ", quoted(name)));
  std::string type = fields.string("type");
  std::optional<Kind> kind = kind_named(type);
  Attribute out;
  if (const JsonValue* reference = fields.find("ref")) {
    if (!type.empty() && !kind) document.refuse(value.offset, concat("type ", quoted(type), " is not known"));
    out.kind = Kind::reference;
    out.string = expect_string(document, *reference, "ref");
    out.detail = type;
    fields.finish();
    return out;
  }
  if (!kind) document.refuse(value.offset, concat("attribute ", quoted(name), ": type ", quoted(type), " is not known"));
  out.kind = *kind;
  switch (*kind) {
    case Kind::tensor:
      out.tensors.push_back(tensor_of_json(fields, source.folder));
      break;
    case Kind::tensors:
      for (const JsonValue& item : fields.array("value")) {
        JsonFields tensor(document, item, "a tensor");
        out.tensors.push_back(tensor_of_json(tensor, source.folder));
        tensor.finish();
      }
      break;
    case Kind::graph:
      out.graphs.push_back(std::make_shared<ModelGraph>(graph_of_json(source, fields)));
      break;
    case Kind::graphs:
      for (const JsonValue& item : fields.array("value")) {
        JsonFields graph(document, item, "a graph");
        out.graphs.push_back(std::make_shared<ModelGraph>(graph_of_json(source, graph)));
        graph.finish();
      }
      break;
    case Kind::type:
      out.types.push_back(type_of_json(fields));
      break;
    case Kind::string:
      out.string = bytes_of_json(document, fields.required("value"));
      break;
    case Kind::strings:
      for (const JsonValue& item : fields.array("value")) out.strings.push_back(bytes_of_json(document, item));
      break;
    case Kind::unsupported:
      document.refuse(value.offset, concat("attribute ", quoted(name), ": ", type, " is not supported"));
    default:
      out = attribute_of_kind(source, fields.required("value"), *kind, concat("attribute ", quoted(name)));
      break;
  }
  fields.finish();
  return out;
}

}  // namespace

const AttributeSpec* attribute_spec(const Node& node, const std::string& name) {
  const OpSchema* schema = find_operator(node.domain, node.op_type);
  const AttributeSpec* found = nullptr;
  if (!schema) return nullptr;
  for (const AttributeSpec& spec : schema->attributes) {
    if (spec.name != name) continue;
    if (found && found->kind != spec.kind) return nullptr;
    found = &spec;
  }
  return found;
}

Attribute attribute_of_json(const JsonSource& source, const JsonValue& value, const std::string& name,
                            const AttributeSpec* spec) {
  const JsonDocument& document = source.document;
  std::string what = concat("attribute ", quoted(name));
  if (value.is(Json::object)) return typed_attribute(source, value, name);
  if (spec) return attribute_of_kind(source, value, spec->kind, what);
  if (is_integer_token(value)) return attribute_of_kind(source, value, Kind::integer, what);
  if (value.is(Json::number)) return attribute_of_kind(source, value, Kind::real, what);
  if (value.is(Json::string)) return attribute_of_kind(source, value, Kind::string, what);
  if (!value.is(Json::array)) document.refuse(value.offset, concat(what, " cannot be ", name_of(value.kind)));
  const std::vector<JsonValue>& items = value.items;
  if (items.empty())
    document.refuse(value.offset, concat(what, " is an empty list of what? Write {\"type\": \"ints\", \"value\": []}"));
  auto all = [&](auto&& holds) { return std::all_of(items.begin(), items.end(), holds); };
  Kind kind = all(is_integer_token)                              ? Kind::integers
              : items[0].is(Json::string) && !all(is_real_token) ? Kind::strings
                                                                 : Kind::reals;
  if (all([](const JsonValue& item) { return item.is(Json::string); })) kind = Kind::strings;
  return attribute_of_kind(source, value, kind, what);
}

}  // namespace metac
