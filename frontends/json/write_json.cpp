// The Model AST into a JSON document: one node, value or parameter a line, what is at its default left out.
#include <algorithm>
#include <cmath>

#include "compiler/ops/onnx_dtypes.h"
#include "compiler/support/base64.h"
#include "compiler/support/file_system.h"
#include "frontends/json/attribute_kinds.h"
#include "frontends/json/json.h"
#include "frontends/json/reading.h"
#include "frontends/json/tensor_json.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

class Writer {
 public:
  Writer(const JsonWriteOptions& options, TensorFile* file) : options_(options), file_(file) {}

  std::string model(const Model& model) {
    std::vector<std::string> parts = {"\"metac_ir\": " + std::to_string(json_ir_version),
                                      "\"ir_version\": " + std::to_string(model.ir_version)};
    add_text(parts, "producer", model.producer);
    add_text(parts, "producer_version", model.producer_version);
    add_text(parts, "domain", model.domain);
    if (model.model_version) parts.push_back("\"model_version\": " + std::to_string(model.model_version));
    add_text(parts, "model_doc", model.doc);
    if (!model.metadata.empty()) parts.push_back("\"metadata\": " + object(model.metadata));
    parts.push_back("\"opset\": " + opsets(model.opset_imports));
    std::vector<std::string> functions;
    for (const ModelFunction& f : model.functions) functions.push_back(function(f));
    if (!functions.empty()) parts.push_back("\"functions\": " + list(functions, 2));
    add_graph(parts, model.graph, 2);
    std::string out = "{\n";
    for (size_t i = 0; i < parts.size(); ++i) out += "  " + parts[i] + (i + 1 < parts.size() ? ",\n" : "\n");
    return out + "}\n";
  }

 private:
  static std::string text(const std::string& value) {
    if (!is_utf8(value)) fail("the name ", metac::quoted(value), " is not UTF-8 and cannot be written to JSON");
    return json_string(value);
  }

  static void add_text(std::vector<std::string>& parts, const char* key, const std::string& value) {
    if (!value.empty()) parts.push_back(concat("\"", key, "\": ", text(value)));
  }

  static std::string joined(const std::vector<std::string>& parts) {
    std::string out;
    for (const std::string& part : parts) out += (out.empty() ? "" : ", ") + part;
    return out;
  }

  // One item a line.
  static std::string list(const std::vector<std::string>& items, int indent) {
    if (items.empty()) return "[]";
    std::string blank(indent + 2, ' '), out = "[\n";
    for (size_t i = 0; i < items.size(); ++i) out += blank + items[i] + (i + 1 < items.size() ? ",\n" : "\n");
    return out + std::string(indent, ' ') + "]";
  }

  static std::string texts(const std::vector<std::string>& values) {
    std::vector<std::string> parts;
    for (const std::string& value : values) parts.push_back(text(value));
    return "[" + joined(parts) + "]";
  }

  static std::string object(const std::map<std::string, std::string>& values) {
    std::vector<std::string> parts;
    for (const auto& [key, value] : values) parts.push_back(text(key) + ": " + text(value));
    return "{" + joined(parts) + "}";
  }

  static std::string opsets(const std::map<std::string, int64_t>& imports) {
    std::vector<std::string> parts;
    for (const auto& [domain, version] : imports) parts.push_back(text(domain) + ": " + std::to_string(version));
    return "{" + joined(parts) + "}";
  }

  static void add_type(std::vector<std::string>& parts, const ValueType& type) {
    if (type.containers != std::vector<std::string>{"tensor"}) parts.push_back("\"container\": " + texts(type.containers));
    if (type.onnx_key_dtype) parts.push_back("\"key_dtype\": " + text(name_of_onnx_number(type.onnx_key_dtype)));
    if (type.dtype)
      parts.push_back("\"dtype\": " + text(std::string(name_of(*type.dtype))));
    else if (type.onnx_dtype)
      parts.push_back("\"dtype\": " + text(name_of_onnx_number(type.onnx_dtype)));
    if (!type.shape) return;
    std::vector<std::string> dims;
    for (const ModelDim& dim : *type.shape)
      dims.push_back(dim.value >= 0 ? std::to_string(dim.value) : dim.symbol.empty() ? "null" : text(dim.symbol));
    parts.push_back("\"shape\": [" + joined(dims) + "]");
  }

  static std::string value(const Value& value) {
    std::vector<std::string> parts = {"\"name\": " + text(value.name)};
    add_type(parts, value.type);
    return "{" + joined(parts) + "}";
  }

  static std::string bytes(const std::string& value) {
    return is_utf8(value) ? json_string(value) : "{\"base64\": \"" + to_base64(value) + "\"}";
  }

  // `plain`: the reader finds the kind by itself.
  static std::string scalar_or_list(const Attribute& attribute, bool typed_by_schema, bool* plain) {
    std::vector<std::string> parts;
    switch (attribute.kind) {
      case Kind::integer:
        return *plain = true, std::to_string(attribute.integer);
      case Kind::real:
        *plain = typed_by_schema || std::isfinite(attribute.real);
        return json_real(attribute.real, true);
      case Kind::string:
        return *plain = is_utf8(attribute.string), bytes(attribute.string);
      case Kind::integers:
        for (int64_t value : attribute.integers) parts.push_back(std::to_string(value));
        break;
      case Kind::reals:
        for (double value : attribute.reals) parts.push_back(json_real(value, true));
        break;
      default:
        for (const std::string& value : attribute.strings) parts.push_back(bytes(value));
        break;
    }
    bool all_utf8 = std::all_of(attribute.strings.begin(), attribute.strings.end(), is_utf8);
    bool any_finite =
        std::any_of(attribute.reals.begin(), attribute.reals.end(), [](double value) { return std::isfinite(value); });
    *plain = typed_by_schema ? all_utf8 : !parts.empty() && all_utf8 && (attribute.kind != Kind::reals || any_finite);
    return "[" + joined(parts) + "]";
  }

  std::string attribute(const std::string& name, const Attribute& attribute, const AttributeSpec* spec, int indent) {
    std::string type = "\"type\": \"" + std::string(name_of_kind(attribute.kind)) + "\"";
    std::vector<std::string> items;
    switch (attribute.kind) {
      case Kind::tensor:
        return "{" + type + ", " + json_of_tensor(attribute.tensors.at(0), options_, file_) + "}";
      case Kind::tensors:
        for (const Tensor& tensor : attribute.tensors) items.push_back("{" + json_of_tensor(tensor, options_, file_) + "}");
        return "{" + type + ", \"value\": " + list(items, indent) + "}";
      case Kind::graph:
        return graph(*attribute.graphs.at(0), type, indent);
      case Kind::graphs:
        for (const auto& g : attribute.graphs) items.push_back(graph(*g, "", indent + 2));
        return "{" + type + ", \"value\": " + list(items, indent) + "}";
      case Kind::type:
        items.push_back(type);
        add_type(items, attribute.types.at(0));
        return "{" + joined(items) + "}";
      case Kind::reference:
        return "{" + (attribute.detail.empty() ? "" : "\"type\": " + text(attribute.detail) + ", ") +
               "\"ref\": " + text(attribute.string) + "}";
      case Kind::unsupported:
        fail("attribute ", metac::quoted(name), " is of type ", attribute.detail, ", which cannot be written");
      default:
        break;
    }
    bool plain = false;
    std::string value = scalar_or_list(attribute, spec && spec->kind == attribute.kind, &plain);
    return plain && (!spec || spec->kind == attribute.kind) ? value : "{" + type + ", \"value\": " + value + "}";
  }

  std::string node(const Node& node, int indent) {
    bool is_meta = node.domain == "metac";
    std::vector<std::string> parts = {"\"op\": " + text(node.op_type)};
    // A domain that the reader would not find by itself.
    bool looks_meta = find_operator("metac", node.op_type) != nullptr;
    if (is_meta ? !looks_meta : !node.domain.empty() || looks_meta) parts.push_back("\"domain\": " + text(node.domain));
    add_text(parts, "name", node.name);
    add_text(parts, "overload", node.overload);
    parts.push_back("\"inputs\": " + texts(node.inputs));
    parts.push_back("\"outputs\": " + texts(node.outputs));
    std::vector<std::string> attributes;
    for (const auto& [name, a] : node.attributes)
      attributes.push_back(text(name) + ": " + attribute(name, a, attribute_spec(node, name), indent));
    if (is_meta)
      parts.insert(parts.end(), attributes.begin(), attributes.end());
    else if (!attributes.empty())
      parts.push_back("\"attributes\": {" + joined(attributes) + "}");
    add_text(parts, "doc", node.doc);
    if (!node.metadata.empty()) parts.push_back("\"metadata\": " + object(node.metadata));
    return "{" + joined(parts) + "}";
  }

  void add_graph(std::vector<std::string>& parts, const ModelGraph& graph, int indent) {
    add_text(parts, "name", graph.name);
    add_text(parts, "doc", graph.doc);
    if (!graph.metadata.empty()) parts.push_back("\"graph_metadata\": " + object(graph.metadata));
    auto values = [&](const std::vector<Value>& from) {
      std::vector<std::string> items;
      for (const Value& v : from) items.push_back(value(v));
      return list(items, indent);
    };
    parts.push_back("\"inputs\": " + values(graph.inputs));
    std::vector<std::string> items;
    for (const Initializer& i : graph.initializers)
      items.push_back("{\"name\": " + text(i.name) + ", " + json_of_tensor(i.tensor, options_, file_) +
                      json_of_packed(i.packed) + "}");
    if (!items.empty()) parts.push_back("\"parameters\": " + list(items, indent));
    if (!graph.value_info.empty()) parts.push_back("\"values\": " + values(graph.value_info));
    items.clear();
    for (const Node& n : graph.nodes) items.push_back(node(n, indent + 2));
    parts.push_back("\"nodes\": " + list(items, indent));
    parts.push_back("\"outputs\": " + values(graph.outputs));
  }

  std::string graph(const ModelGraph& graph, const std::string& type, int indent) {
    std::vector<std::string> parts;
    if (!type.empty()) parts.push_back(type);
    add_graph(parts, graph, indent + 2);
    std::string blank(indent + 2, ' '), out = "{\n";
    for (size_t i = 0; i < parts.size(); ++i) out += blank + parts[i] + (i + 1 < parts.size() ? ",\n" : "\n");
    return out + std::string(indent, ' ') + "}";
  }

  std::string function(const ModelFunction& function) {
    std::vector<std::string> parts = {"\"name\": " + text(function.name)}, nodes, defaults;
    add_text(parts, "domain", function.domain);
    add_text(parts, "overload", function.overload);
    parts.push_back("\"inputs\": " + texts(function.inputs));
    parts.push_back("\"outputs\": " + texts(function.outputs));
    if (!function.attributes.empty()) parts.push_back("\"attributes\": " + texts(function.attributes));
    for (const auto& [name, a] : function.attribute_defaults)
      defaults.push_back(text(name) + ": " + attribute(name, a, nullptr, 4));
    if (!defaults.empty()) parts.push_back("\"defaults\": {" + joined(defaults) + "}");
    parts.push_back("\"opset\": " + opsets(function.opset_imports));
    for (const Node& n : function.nodes) nodes.push_back(node(n, 6));
    parts.push_back("\"nodes\": " + list(nodes, 4));
    return "{" + joined(parts) + "}";
  }

  const JsonWriteOptions& options_;
  TensorFile* file_;
};

}  // namespace

std::string to_json_text(const Model& model, const JsonWriteOptions& options) {
  return Writer(options, nullptr).model(model);
}

void write_json_model(const Model& model, const std::string& path, const JsonWriteOptions& options) {
  int64_t total = 0;
  for (const Initializer& initializer : model.graph.initializers)
    if (initializer.tensor.dtype != DType::string) total += static_cast<int64_t>(initializer.tensor.byte_count());
  TensorFile file;
  if (total > options.inline_limit) file.name = file_name(path) + ".data";
  std::string text = Writer(options, &file).model(model);
  if (file.size) write_file(path + ".data", file.pieces);
  write_file(path, text);
}

}  // namespace metac
