// A model as its file says it: operators by name, values by name. Both front ends (ONNX, JSON) read into this and write
// out of it, so `metac convert` loses nothing; compiler/ops/lower_model.h turns it into a Graph.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "compiler/ir/dtype.h"
#include "compiler/ir/tensor.h"
#include "compiler/ops/packed_numbers.h"

namespace metac {

struct ModelGraph;

struct ModelDim {
  int64_t value = -1;  // -1: open
  std::string symbol;  // the name of an open dim; empty: anonymous
};

struct ValueType {
  // "tensor", "sequence", "optional", "map" in nesting order, e.g. {"sequence", "tensor"}
  std::vector<std::string> containers = {"tensor"};
  std::optional<DType> dtype;                  // empty: not stated, or a dtype that this build does not know
  int32_t onnx_dtype = 0;                      // as the file says it, for messages and round trips
  std::optional<std::vector<ModelDim>> shape;  // empty: even the rank is not stated
  int32_t onnx_key_dtype = 0;                  // maps: of the keys, as the file says it
};

struct Value {
  std::string name;
  ValueType type;
};

// What --dim and messages call an open dim of an input: its name, or, of one without, "INPUT_AXIS".
std::string name_of_dim(const Value& input, size_t axis);

struct Attribute {
  enum class Kind {
    integer,
    real,
    string,
    tensor,
    graph,
    integers,
    reals,
    strings,
    tensors,
    graphs,
    type,
    reference,
    unsupported
  };
  Kind kind = Kind::integer;
  int64_t integer = 0;
  double real = 0;
  std::string string;  // also: name of the referenced function attribute
  std::vector<int64_t> integers;
  std::vector<double> reals;
  std::vector<std::string> strings;
  std::vector<Tensor> tensors;                      // tensor: one element
  std::vector<std::shared_ptr<ModelGraph>> graphs;  // graph: one element
  std::vector<ValueType> types;                     // type: one element
  std::string detail;  // unsupported: what it is ("sparse_tensor"); reference: the kind, where stated
};

struct Node {
  std::string name, op_type, overload;
  std::string domain;                        // "" means ai.onnx (also when written "ai.onnx")
  std::vector<std::string> inputs, outputs;  // "" stands for an absent one
  std::map<std::string, Attribute> attributes;
  std::string doc;
  std::map<std::string, std::string> metadata;
  int line = 0;  // JSON documents: where it stands
};

struct Initializer {
  std::string name;
  Tensor tensor;
  std::optional<PackedNumbers> packed = {};  // the tensor is the bytes of these
};

struct ModelGraph {
  std::string name, doc;
  std::vector<Value> inputs, outputs, value_info;
  std::vector<Initializer> initializers;
  std::vector<Node> nodes;
  std::map<std::string, std::string> metadata;
};

struct ModelFunction {
  std::string domain, name, overload;
  std::vector<std::string> inputs, outputs;
  std::vector<std::string> attributes;  // without default
  std::map<std::string, Attribute> attribute_defaults;
  std::map<std::string, int64_t> opset_imports;
  std::vector<Node> nodes;
};

struct Model {
  std::string path;    // as the user gave it, for messages
  std::string sha256;  // of the file's bytes, where that was asked for (frontends/read_model.h)
  int64_t ir_version = 0;
  std::string producer, producer_version, domain, doc;
  int64_t model_version = 0;
  std::map<std::string, int64_t> opset_imports;  // by domain; "" is ai.onnx
  std::map<std::string, std::string> metadata;
  std::vector<ModelFunction> functions;
  ModelGraph graph;
};

// "node #12 "conv1" (Conv)" for messages, "line 7, node #12 ..." for nodes of a JSON document.
std::string describe(const Node& node, int index);

}  // namespace metac
