#include "frontends/json/attribute_kinds.h"

namespace metac {

struct KindRow {
  std::string_view name;
  Attribute::Kind kind;
};

static constexpr KindRow rows[] = {
    {"int", Attribute::Kind::integer},
    {"float", Attribute::Kind::real},
    {"string", Attribute::Kind::string},
    {"ints", Attribute::Kind::integers},
    {"floats", Attribute::Kind::reals},
    {"strings", Attribute::Kind::strings},
    {"tensor", Attribute::Kind::tensor},
    {"tensors", Attribute::Kind::tensors},
    {"graph", Attribute::Kind::graph},
    {"graphs", Attribute::Kind::graphs},
    {"type", Attribute::Kind::type},
    {"ref", Attribute::Kind::reference},
    {"sparse_tensor", Attribute::Kind::unsupported},
    {"sparse_tensors", Attribute::Kind::unsupported},
    {"types", Attribute::Kind::unsupported},
};

std::string_view name_of_kind(Attribute::Kind kind) {
  for (const KindRow& row : rows)
    if (row.kind == kind) return row.name;
  return "";
}

std::optional<Attribute::Kind> kind_named(std::string_view name) {
  for (const KindRow& row : rows)
    if (row.name == name && row.kind != Attribute::Kind::reference) return row.kind;
  return std::nullopt;
}

}  // namespace metac
