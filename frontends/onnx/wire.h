// Inside the ONNX front end: the numbers of the wire format and the functions that its files share.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "compiler/ops/model.h"
#include "compiler/support/file_system.h"
#include "frontends/onnx/onnx.h"
#include "metac_onnx.pb.h"

namespace metac {

namespace wire = metac_onnx;

enum AttributeType : int32_t {
  attribute_untyped = 0,  // files of IR version 1
  attribute_float = 1,
  attribute_int = 2,
  attribute_string = 3,
  attribute_tensor = 4,
  attribute_graph = 5,
  attribute_floats = 6,
  attribute_ints = 7,
  attribute_strings = 8,
  attribute_tensors = 9,
  attribute_graphs = 10,
  attribute_sparse_tensor = 11,
  attribute_sparse_tensors = 12,
  attribute_type = 13,
  attribute_types = 14,
};
constexpr int32_t external_location = 1;

// False: it is no such message.
bool parses(std::string_view bytes, google::protobuf::Message& message);
// Parses or throws "not an ONNX model: <reason> at byte N".
void parse_message(std::string_view bytes, const std::string& path, std::string_view what,
                   google::protobuf::Message& message);

// The tensor's elements are moved out of the message where they can be; `raw_data`, if not null, is what was left out of it.
// External data is read below `folder`. Throws with the message alone ("needs 16 bytes, has 15"); the caller adds the
// tensor's name.
Tensor decode_tensor(wire::Tensor& proto, const std::string& folder, const FileBytes* raw_data = nullptr);
// An initialiser, whose elements may be packed.
Initializer decode_initializer(wire::Tensor& proto, const std::string& folder, const FileBytes* raw_data = nullptr);
void encode_initializer(const Initializer& initializer, wire::Tensor& proto);
Tensor decode_sparse_tensor(wire::SparseTensor& proto, const std::string& folder);
void encode_tensor(const Tensor& tensor, wire::Tensor& proto);

ValueType decode_type(const wire::Type& proto);
void encode_type(const ValueType& type, wire::Type& proto);

Attribute decode_attribute(wire::Attribute& proto, const std::string& folder);
void encode_attribute(const std::string& name, const Attribute& attribute, wire::Attribute& proto);

// left_out: of initialisers whose raw_data the message has not, by position.
ModelGraph decode_graph(wire::Graph& proto, const std::string& folder, const std::map<int, FileBytes>& left_out = {});
void encode_graph(const ModelGraph& graph, wire::Graph& proto);

}  // namespace metac
