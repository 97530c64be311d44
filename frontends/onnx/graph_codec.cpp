// Nodes, graphs and local functions between the wire format and the Model AST.
#include "frontends/onnx/graph_codec.h"

#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

std::string canonical_domain(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

void decode_attributes(google::protobuf::RepeatedPtrField<wire::Attribute>& protos, const std::string& folder,
                       std::map<std::string, Attribute>& attributes) {
  for (wire::Attribute& proto : protos)
    at_place("attribute " + quoted(proto.name()), [&] {
      if (proto.name().empty()) fail("has no name");
      if (!attributes.emplace(proto.name(), decode_attribute(proto, folder)).second) fail("is given twice");
    });
}

Value decode_value(const wire::ValueInfo& proto, const char* role, int index) {
  Value value;
  at_place(concat(role, " #", index, " ", quoted(proto.name())), [&] { value = {proto.name(), decode_type(proto.type())}; });
  return value;
}

void encode_value(const Value& value, wire::ValueInfo& proto) {
  proto.set_name(value.name);
  encode_type(value.type, *proto.mutable_type());
}

template <typename Proto>
void encode_metadata(const std::map<std::string, std::string>& metadata, Proto& proto) {
  for (const auto& [key, value] : metadata) {
    wire::Entry& entry = *proto.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
}

}  // namespace

Node decode_node(wire::Node& proto, int index, const std::string& folder) {
  Node node;
  node.name = proto.name();
  node.op_type = proto.op_type();
  node.domain = canonical_domain(proto.domain());
  node.overload = proto.overload();
  node.inputs.assign(proto.input().begin(), proto.input().end());
  node.outputs.assign(proto.output().begin(), proto.output().end());
  node.doc = proto.doc_string();
  for (const wire::Entry& entry : proto.metadata_props()) node.metadata[entry.key()] = entry.value();
  at_place(describe(node, index), [&] {
    if (node.op_type.empty()) fail("has no op_type");
    decode_attributes(*proto.mutable_attribute(), folder, node.attributes);
  });
  return node;
}

void encode_node(const Node& node, wire::Node& proto) {
  proto.set_name(node.name);
  proto.set_op_type(node.op_type);
  proto.set_domain(node.domain);
  proto.set_overload(node.overload);
  for (const std::string& name : node.inputs) proto.add_input(name);
  for (const std::string& name : node.outputs) proto.add_output(name);
  proto.set_doc_string(node.doc);
  for (const auto& [name, attribute] : node.attributes) encode_attribute(name, attribute, *proto.add_attribute());
  encode_metadata(node.metadata, proto);
}

ModelGraph decode_graph(wire::Graph& proto, const std::string& folder, const std::map<int, FileBytes>& left_out) {
  ModelGraph graph;
  graph.name = proto.name();
  graph.doc = proto.doc_string();
  for (const wire::ValueInfo& value : proto.input())
    graph.inputs.push_back(decode_value(value, "input", graph.inputs.size()));
  for (const wire::ValueInfo& value : proto.output())
    graph.outputs.push_back(decode_value(value, "output", graph.outputs.size()));
  for (const wire::ValueInfo& value : proto.value_info())
    graph.value_info.push_back(decode_value(value, "value_info", graph.value_info.size()));
  auto add_initializer = [&](const std::string& name, auto&& decode) {
    at_place("tensor " + quoted(name), [&] {
      if (name.empty()) fail("initializer #", graph.initializers.size(), " has no name");
      graph.initializers.push_back(decode());
    });
  };
  graph.initializers.reserve(proto.initializer_size() + proto.sparse_initializer_size());
  for (int i = 0; i < proto.initializer_size(); ++i) {
    wire::Tensor& tensor = *proto.mutable_initializer(i);
    const auto found = left_out.find(i);
    add_initializer(tensor.name(),
                    [&] { return decode_initializer(tensor, folder, found == left_out.end() ? nullptr : &found->second); });
  }
  for (wire::SparseTensor& tensor : *proto.mutable_sparse_initializer())
    add_initializer(tensor.values().name(), [&] {
      return Initializer{tensor.values().name(), decode_sparse_tensor(tensor, folder)};
    });
  graph.nodes.reserve(proto.node_size());
  for (wire::Node& node : *proto.mutable_node())
    graph.nodes.push_back(decode_node(node, static_cast<int>(graph.nodes.size()), folder));
  for (const wire::Entry& entry : proto.metadata_props()) graph.metadata[entry.key()] = entry.value();
  return graph;
}

void encode_graph(const ModelGraph& graph, wire::Graph& proto) {
  proto.set_name(graph.name);
  proto.set_doc_string(graph.doc);
  for (const Value& value : graph.inputs) encode_value(value, *proto.add_input());
  for (const Value& value : graph.outputs) encode_value(value, *proto.add_output());
  for (const Value& value : graph.value_info) encode_value(value, *proto.add_value_info());
  for (const Initializer& initializer : graph.initializers) encode_initializer(initializer, *proto.add_initializer());
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    at_place(describe(graph.nodes[i], static_cast<int>(i)), [&] { encode_node(graph.nodes[i], *proto.add_node()); });
  encode_metadata(graph.metadata, proto);
}

ModelFunction decode_function(wire::Function& proto, const std::string& folder) {
  ModelFunction function;
  function.domain = canonical_domain(proto.domain());
  function.name = proto.name();
  function.overload = proto.overload();
  function.inputs.assign(proto.input().begin(), proto.input().end());
  function.outputs.assign(proto.output().begin(), proto.output().end());
  function.attributes.assign(proto.attribute().begin(), proto.attribute().end());
  at_place("function " + quoted(function.name), [&] {
    if (function.name.empty()) fail("has no name");
    decode_attributes(*proto.mutable_attribute_proto(), folder, function.attribute_defaults);
    function.opset_imports = decode_opsets(proto.opset_import());
    for (wire::Node& node : *proto.mutable_node())
      function.nodes.push_back(decode_node(node, static_cast<int>(function.nodes.size()), folder));
  });
  return function;
}

void encode_function(const ModelFunction& function, wire::Function& proto) {
  proto.set_domain(function.domain);
  proto.set_name(function.name);
  proto.set_overload(function.overload);
  for (const std::string& name : function.inputs) proto.add_input(name);
  for (const std::string& name : function.outputs) proto.add_output(name);
  for (const std::string& name : function.attributes) proto.add_attribute(name);
  for (const auto& [name, attribute] : function.attribute_defaults)
    encode_attribute(name, attribute, *proto.add_attribute_proto());
  encode_opsets(function.opset_imports, *proto.mutable_opset_import());
  for (const Node& node : function.nodes) encode_node(node, *proto.add_node());
}

std::map<std::string, int64_t> decode_opsets(const google::protobuf::RepeatedPtrField<wire::OperatorSet>& imports) {
  std::map<std::string, int64_t> opsets;
  for (const wire::OperatorSet& import : imports) {
    auto [entry, fresh] = opsets.emplace(canonical_domain(import.domain()), import.version());
    if (!fresh && entry->second != import.version())
      fail("opset_import states domain ", quoted(import.domain()), " twice, as ", entry->second, " and ", import.version());
  }
  return opsets;
}

void encode_opsets(const std::map<std::string, int64_t>& imports,
                   google::protobuf::RepeatedPtrField<wire::OperatorSet>& protos) {
  for (const auto& [domain, version] : imports) {
    wire::OperatorSet& import = *protos.Add();
    import.set_domain(domain);
    import.set_version(version);
  }
}

}  // namespace metac
