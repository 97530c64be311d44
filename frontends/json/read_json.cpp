// A JSON document into the Model AST.
#include <set>

#include "compiler/ops/onnx_dtypes.h"
#include "compiler/support/file_system.h"
#include "frontends/json/json.h"
#include "frontends/json/reading.h"
#include "frontends/json/tensor_json.h"

namespace metac {
namespace {

using Json = JsonValue::Kind;
constexpr const char* meta_domain = "metac";
constexpr const char* training_domain = "ai.onnx.preview.training";

std::map<std::string, int64_t> opsets_of_json(JsonFields& fields) {
  std::map<std::string, int64_t> opsets;
  const JsonDocument& document = fields.document();
  if (const JsonValue* value = fields.find("opset")) {
    if (value->is(Json::number)) {  // "opset": 17 is that of ai.onnx
      opsets[""] = expect_integer(document, *value, "opset");
      return opsets;
    }
    expect(document, *value, Json::object, "\"opset\"");
    for (const auto& [domain, version] : value->members)
      if (!opsets.emplace(domain == "ai.onnx" ? "" : domain, expect_integer(document, version, "an opset")).second)
        document.refuse(version.offset, "the opset of ai.onnx is given twice");
  }
  return opsets;
}

std::map<std::string, std::string> strings_of_json(JsonFields& fields, std::string_view key) {
  std::map<std::string, std::string> out;
  if (const JsonValue* value = fields.find(key)) {
    expect(fields.document(), *value, Json::object, quoted(key));
    for (const auto& [name, text] : value->members) out[name] = expect_string(fields.document(), text, quoted(name));
  }
  return out;
}

int32_t onnx_number_named(const std::string& name) {
  for (int32_t number = 1; number < 32; ++number)
    if (name_of_onnx_number(number) == name) return number;
  return 0;
}

ModelFunction function_of_json(const JsonSource& source, const JsonValue& value) {
  JsonFields fields(source.document, value, "a function");
  ModelFunction function;
  function.name = expect_string(source.document, fields.required("name"), "a function's name");
  function.domain = fields.string("domain");
  function.overload = fields.string("overload");
  function.inputs = fields.strings("inputs");
  function.outputs = fields.strings("outputs");
  function.attributes = fields.strings("attributes");
  function.opset_imports = opsets_of_json(fields);
  if (const JsonValue* defaults = fields.find("defaults")) {
    expect(source.document, *defaults, Json::object, "\"defaults\"");
    for (const auto& [name, attribute] : defaults->members)
      function.attribute_defaults[name] = attribute_of_json(source, attribute, name, nullptr);
  }
  for (const JsonValue& node : fields.array("nodes")) function.nodes.push_back(node_of_json(source, node));
  fields.finish();
  return function;
}

// Which operator sets a document needs follows from its nodes where it does not say.
bool uses_domain(const std::vector<Node>& nodes, const std::string& domain) {
  for (const Node& node : nodes) {
    if (node.domain == domain) return true;
    for (const auto& [name, attribute] : node.attributes)
      for (const auto& graph : attribute.graphs)
        if (uses_domain(graph->nodes, domain)) return true;
  }
  return false;
}

}  // namespace

ValueType type_of_json(JsonFields& fields) {
  const JsonDocument& document = fields.document();
  ValueType type;
  if (fields.find("container")) type.containers = fields.strings("container");
  for (const std::string& container : type.containers)
    if (std::set<std::string>{"tensor", "sparse_tensor", "sequence", "optional", "map", "opaque"}.count(container) == 0)
      document.refuse(fields.object().offset, concat("container ", quoted(container), " is not known"));
  if (const JsonValue* dtype = fields.find("dtype")) {
    type.onnx_dtype = onnx_number_named(expect_string(document, *dtype, "\"dtype\""));
    if (type.onnx_dtype == 0) document.refuse(dtype->offset, concat("dtype ", quoted(dtype->text), " is not known"));
    type.dtype = dtype_of_onnx_number(type.onnx_dtype);
  }
  if (const JsonValue* dtype = fields.find("key_dtype")) {
    type.onnx_key_dtype = onnx_number_named(expect_string(document, *dtype, "\"key_dtype\""));
    if (type.onnx_key_dtype == 0) document.refuse(dtype->offset, concat("dtype ", quoted(dtype->text), " is not known"));
  }
  if (const JsonValue* shape = fields.find("shape")) {
    expect(document, *shape, Json::array, "\"shape\"");
    type.shape.emplace();
    for (const JsonValue& item : shape->items) {
      ModelDim dim;
      if (item.is(Json::string)) {
        dim.symbol = item.text;
      } else if (!item.is(Json::null)) {
        dim.value = expect_integer(document, item, "a dim");
        if (dim.value < 0) document.refuse(item.offset, concat("a negative dim: ", dim.value, "; null is an open one"));
      }
      type.shape->push_back(std::move(dim));
    }
  }
  return type;
}

Value value_of_json(const JsonDocument& document, const JsonValue& value, const std::string& what) {
  if (value.is(Json::string)) return {value.text, {}};
  JsonFields fields(document, value, what);
  Value out;
  out.name = expect_string(document, fields.required("name"), "a name");
  out.type = type_of_json(fields);
  fields.finish();
  return out;
}

// {"op": "grad", "of": "y", "inputs": ["a", "b"], "outputs": ["dy/da", "dy/db"]}: ONNX's Gradient, which names its inputs
// twice.
static Node gradient_of_json(JsonFields& fields, Node node) {
  node.op_type = "Gradient";
  node.domain = training_domain;
  node.name = fields.string("name");
  node.inputs = fields.strings("inputs");
  node.outputs = fields.strings("outputs");
  node.doc = fields.string("doc");
  node.line = fields.document().line(fields.object().offset);
  Attribute& xs = node.attributes["xs"];
  xs.kind = Attribute::Kind::strings;
  xs.strings = node.inputs;
  Attribute& y = node.attributes["y"];
  y.kind = Attribute::Kind::string;
  y.string = expect_string(fields.document(), fields.required("of"), "\"of\"");
  fields.finish();
  return node;
}

Node node_of_json(const JsonSource& source, const JsonValue& value) {
  const JsonDocument& document = source.document;
  JsonFields fields(document, value, "a node");
  Node node;
  const JsonValue& op = fields.required("op");
  node.op_type = expect_string(document, op, "\"op\"");
  bool states_domain = fields.find("domain") != nullptr;
  node.domain = fields.string("domain");
  if (node.domain == "ai.onnx") node.domain = "";
  const auto defined = source.defined.find(node.op_type);
  if (!states_domain && defined != source.defined.end())
    node.domain = defined->second;
  else if (!states_domain && find_operator(meta_domain, node.op_type))
    node.domain = meta_domain;
  else if (!states_domain && node.op_type == "grad")
    return gradient_of_json(fields, std::move(node));
  node.name = fields.string("name");
  node.overload = fields.string("overload");
  node.inputs = fields.strings("inputs");
  node.outputs = fields.strings("outputs");
  node.doc = fields.string("doc");
  node.metadata = strings_of_json(fields, "metadata");
  node.line = document.line(value.offset);

  bool is_meta = node.domain == meta_domain;
  if (is_meta && !find_operator(meta_domain, node.op_type))
    document.refuse(op.offset, concat("there is no meta-operator ", quoted(node.op_type)));
  auto add = [&](const std::string& name, const JsonValue& attribute) {
    const AttributeSpec* spec = attribute_spec(node, name);
    const bool takes_any = node.op_type == "expression";  // numbers by the names that its formula has for them
    if (is_meta && !spec && !takes_any)
      document.refuse(attribute.offset, concat(node.op_type, " has no field ", quoted(name)));
    if (!node.attributes.emplace(name, attribute_of_json(source, attribute, name, spec)).second)
      document.refuse(attribute.offset, concat("attribute ", quoted(name), " is given twice"));
    bool is_expression = is_meta && !takes_any &&
                         (spec->kind == Attribute::Kind::strings || spec->kind == Attribute::Kind::string) &&
                         name != "reduce" && name != "dtype" && (node.op_type != "code" || name == "shape" || name == "let");
    if (!is_expression) return;
    auto check = [&](const JsonValue& value) {
      if (value.is(Json::string) || value.is(Json::number)) check_expression(document, value, name);
    };
    check(attribute);
    for (const JsonValue& item : attribute.items) check(item);
  };
  if (const JsonValue* attributes = fields.find("attributes")) {
    expect(document, *attributes, Json::object, "\"attributes\"");
    for (const auto& [name, attribute] : attributes->members) add(name, attribute);
  }
  // Meta-operators state theirs beside "op".
  if (is_meta)
    for (const auto* member : fields.rest()) add(member->key, member->value);
  fields.finish();
  return node;
}

ModelGraph graph_of_json(const JsonSource& source, JsonFields& fields) {
  const JsonDocument& document = source.document;
  ModelGraph graph;
  graph.name = fields.string("name");
  graph.doc = fields.string("doc");
  graph.metadata = strings_of_json(fields, "graph_metadata");
  for (const JsonValue& value : fields.array("inputs")) graph.inputs.push_back(value_of_json(document, value, "an input"));
  for (const JsonValue& value : fields.array("outputs"))
    graph.outputs.push_back(value_of_json(document, value, "an output"));
  for (const JsonValue& value : fields.array("values"))
    graph.value_info.push_back(value_of_json(document, value, "a value"));
  for (const JsonValue& value : fields.array("parameters")) {
    JsonFields parameter(document, value, "a parameter");
    std::string name = expect_string(document, parameter.required("name"), "a parameter's name");
    Tensor tensor = tensor_of_json(parameter, source.folder);
    std::optional<PackedNumbers> packed = packed_of_json(parameter, tensor);
    graph.initializers.push_back({std::move(name), std::move(tensor), std::move(packed)});
    parameter.finish();
  }
  const std::vector<JsonValue>& lets = fields.array("let");
  for (const JsonValue& node : fields.array("nodes")) graph.nodes.push_back(node_of_json(source, node));
  DimNames names(document, graph.inputs, lets);
  for (Node& node : graph.nodes)
    if (node.domain == meta_domain && node.op_type != "expression") names.complete(node);
  return graph;
}

Model read_json_model(const std::string& path) { return read_json_model(read_file(path).view(), path); }

Model read_json_model(std::string_view text, const std::string& path) {
  JsonDocument document(text, path);
  JsonSource source{document, parent_folder(path)};
  JsonFields fields(document, document.root(), "the document");
  const JsonValue& version = fields.required("metac_ir");
  if (int64_t v = expect_integer(document, version, "metac_ir"); v != json_ir_version)
    document.refuse(version.offset, concat("metac_ir ", v, " is not known; this build reads version ", json_ir_version));
  Model model;
  model.path = path;
  model.ir_version = fields.integer("ir_version", 10);
  model.producer = fields.string("producer");
  model.producer_version = fields.string("producer_version");
  model.domain = fields.string("domain");
  model.model_version = fields.integer("model_version", 0);
  model.doc = fields.string("model_doc");
  model.metadata = strings_of_json(fields, "metadata");
  model.opset_imports = opsets_of_json(fields);
  if (const JsonValue* definitions = fields.find("define")) {
    expect(document, *definitions, Json::object, "\"define\"");
    for (const auto& [signature, value] : definitions->members) {
      model.functions.push_back(definition_of_json(document, signature, value));
      const ModelFunction& made = model.functions.back();
      if (!source.defined.emplace(made.name, made.domain).second)
        document.refuse(value.offset, concat("operator ", quoted(made.name), " is defined twice"));
    }
  }
  for (const JsonValue& function : fields.array("functions")) model.functions.push_back(function_of_json(source, function));
  model.graph = graph_of_json(source, fields);
  fields.finish();
  for (const char* domain : {meta_domain, training_domain})
    if (uses_domain(model.graph.nodes, domain)) model.opset_imports.emplace(domain, 1);
  if (model.opset_imports.empty()) model.opset_imports[meta_domain] = 1;  // nodes of operators that users define
  if (!model.opset_imports.count("")) {
    if (uses_domain(model.graph.nodes, ""))
      document.refuse(document.root().offset, "the document uses ONNX operators but states no \"opset\"");
  }
  return model;
}

}  // namespace metac
