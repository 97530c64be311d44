// Nodes and functions of the wire format, for graph_codec.cpp and model_codec.cpp.
#pragma once
#include "compiler/support/diagnostic.h"
#include "frontends/onnx/wire.h"

namespace metac {

Node decode_node(wire::Node& proto, int index, const std::string& folder);
void encode_node(const Node& node, wire::Node& proto);
ModelFunction decode_function(wire::Function& proto, const std::string& folder);
void encode_function(const ModelFunction& function, wire::Function& proto);
std::map<std::string, int64_t> decode_opsets(const google::protobuf::RepeatedPtrField<wire::OperatorSet>& imports);
void encode_opsets(const std::map<std::string, int64_t>& imports,
                   google::protobuf::RepeatedPtrField<wire::OperatorSet>& protos);

// Runs `f`; a CompileError that names no place yet gets `place`, one from further inside gets it in front.
template <typename F>
void at_place(const std::string& place, F&& f) {
  try {
    f();
  } catch (CompileError& error) {
    Diagnostic d = error.diagnostic;
    d.node = d.node.empty() ? place : place + ": " + d.node;
    throw CompileError(std::move(d));
  }
}

}  // namespace metac
