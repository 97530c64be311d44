// Attributes of nodes. What an attribute says it is and what it carries must agree.
#include <optional>

#include "compiler/support/diagnostic.h"
#include "frontends/onnx/wire.h"

namespace metac {
namespace {

struct KindName {
  int32_t type;
  Attribute::Kind kind;
  const char* name;
};
using Kind = Attribute::Kind;
constexpr KindName kinds[] = {
    {attribute_float, Kind::real, "float"},        {attribute_int, Kind::integer, "int"},
    {attribute_string, Kind::string, "string"},    {attribute_tensor, Kind::tensor, "tensor"},
    {attribute_graph, Kind::graph, "graph"},       {attribute_floats, Kind::reals, "floats"},
    {attribute_ints, Kind::integers, "ints"},      {attribute_strings, Kind::strings, "strings"},
    {attribute_tensors, Kind::tensors, "tensors"}, {attribute_graphs, Kind::graphs, "graphs"},
    {attribute_type, Kind::type, "type"},          {attribute_sparse_tensor, Kind::unsupported, "sparse_tensor"},
    {attribute_types, Kind::unsupported, "types"}, {attribute_sparse_tensors, Kind::unsupported, "sparse_tensors"},
};

const KindName* find_kind(int32_t type) {
  for (const KindName& row : kinds)
    if (row.type == type) return &row;
  return nullptr;
}

// The type whose field the attribute carries, untyped when none: files of IR version 1 state no type.
int32_t carried_type(const wire::Attribute& proto) {
  std::vector<int32_t> found;
  auto note = [&](bool present, int32_t type) {
    if (present) found.push_back(type);
  };
  note(proto.has_f(), attribute_float);
  note(proto.has_i(), attribute_int);
  note(proto.has_s(), attribute_string);
  note(proto.has_t(), attribute_tensor);
  note(proto.has_g(), attribute_graph);
  note(proto.has_tp(), attribute_type);
  note(proto.has_sparse_tensor(), attribute_sparse_tensor);
  note(proto.floats_size() > 0, attribute_floats);
  note(proto.ints_size() > 0, attribute_ints);
  note(proto.strings_size() > 0, attribute_strings);
  note(proto.tensors_size() > 0, attribute_tensors);
  note(proto.graphs_size() > 0, attribute_graphs);
  note(proto.type_protos_size() > 0, attribute_types);
  note(proto.sparse_tensors_size() > 0, attribute_sparse_tensors);
  if (found.empty()) return attribute_untyped;
  if (found.size() == 1) return found[0];
  // proto3 writers may set the scalar fields of every attribute to their defaults; only those may stand beside the stated.
  bool stated = false;
  for (int32_t type : found) {
    bool is_default = (type == attribute_float && proto.f() == 0) || (type == attribute_int && proto.i() == 0) ||
                      (type == attribute_string && proto.s().empty());
    if (type == proto.type())
      stated = true;
    else if (!is_default)
      return type;
  }
  return stated ? proto.type() : found[0];
}

}  // namespace

Attribute decode_attribute(wire::Attribute& proto, const std::string& folder) {
  Attribute out;
  const KindName* stated = find_kind(proto.type());
  if (!proto.ref_attr_name().empty()) {
    out.kind = Kind::reference;
    out.string = proto.ref_attr_name();
    out.detail = stated ? stated->name : "";
    return out;
  }
  if (!stated && proto.type() != attribute_untyped) fail("has type ", proto.type(), ", which ONNX does not define");
  int32_t carried = carried_type(proto);
  if (!stated) stated = find_kind(carried);
  if (!stated) fail("states no type and carries no value");
  if (carried != attribute_untyped && carried != stated->type)
    fail("says it is of type ", stated->name, " but carries a value of type ", find_kind(carried)->name);
  out.kind = stated->kind;
  switch (out.kind) {
    case Kind::real:
      out.real = proto.f();
      break;
    case Kind::integer:
      out.integer = proto.i();
      break;
    case Kind::string:
      out.string = std::move(*proto.mutable_s());
      break;
    case Kind::reals:
      out.reals.assign(proto.floats().begin(), proto.floats().end());
      break;
    case Kind::integers:
      out.integers.assign(proto.ints().begin(), proto.ints().end());
      break;
    case Kind::strings:
      out.strings.assign(proto.strings().begin(), proto.strings().end());
      break;
    case Kind::tensor:
      if (!proto.has_t()) fail("says it is of type tensor but carries none");
      out.tensors.push_back(decode_tensor(*proto.mutable_t(), folder));
      break;
    case Kind::tensors:
      for (wire::Tensor& tensor : *proto.mutable_tensors()) out.tensors.push_back(decode_tensor(tensor, folder));
      break;
    case Kind::graph:
      if (!proto.has_g()) fail("says it is of type graph but carries none");
      out.graphs.push_back(std::make_shared<ModelGraph>(decode_graph(*proto.mutable_g(), folder)));
      break;
    case Kind::graphs:
      for (wire::Graph& graph : *proto.mutable_graphs())
        out.graphs.push_back(std::make_shared<ModelGraph>(decode_graph(graph, folder)));
      break;
    case Kind::type:
      out.types.push_back(decode_type(proto.tp()));
      break;
    default:
      out.detail = stated->name;
      break;
  }
  return out;
}

void encode_attribute(const std::string& name, const Attribute& attribute, wire::Attribute& proto) {
  proto.set_name(name);
  for (const KindName& row : kinds)
    if (attribute.kind == Kind::reference ? attribute.detail == row.name : attribute.kind == row.kind) {
      proto.set_type(row.type);
      break;
    }
  switch (attribute.kind) {
    case Kind::real:
      proto.set_f(static_cast<float>(attribute.real));
      break;
    case Kind::integer:
      proto.set_i(attribute.integer);
      break;
    case Kind::string:
      proto.set_s(attribute.string);
      break;
    case Kind::reals:
      for (double value : attribute.reals) proto.add_floats(static_cast<float>(value));
      break;
    case Kind::integers:
      for (int64_t value : attribute.integers) proto.add_ints(value);
      break;
    case Kind::strings:
      for (const std::string& value : attribute.strings) proto.add_strings(value);
      break;
    case Kind::tensor:
      encode_tensor(attribute.tensors.at(0), *proto.mutable_t());
      break;
    case Kind::tensors:
      for (const Tensor& tensor : attribute.tensors) encode_tensor(tensor, *proto.add_tensors());
      break;
    case Kind::graph:
      encode_graph(*attribute.graphs.at(0), *proto.mutable_g());
      break;
    case Kind::graphs:
      for (const auto& graph : attribute.graphs) encode_graph(*graph, *proto.add_graphs());
      break;
    case Kind::type:
      encode_type(attribute.types.at(0), *proto.mutable_tp());
      break;
    case Kind::reference:
      proto.set_ref_attr_name(attribute.string);
      break;
    case Kind::unsupported:
      fail("attribute ", quoted(name), " is of type ", attribute.detail, ", which cannot be written");
  }
}

}  // namespace metac
