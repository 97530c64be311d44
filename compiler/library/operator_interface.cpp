// The functions of metac/var.h that tell of the registry's operators and find them with their attributes.
#include <cstring>
#include <deque>

#include "compiler/lazy/lazy_graph.h"
#include "compiler/library/options.h"
#include "compiler/library/status.h"
#include "compiler/library/vars.h"
#include "frontends/given_operators.h"

using namespace metac;
using namespace metac::library;

namespace {

// metac_attribute_kind has Attribute::Kind's numbers.
static_assert(METAC_INTEGER == static_cast<int>(Attribute::Kind::integer) &&
              METAC_REAL == static_cast<int>(Attribute::Kind::real) &&
              METAC_STRING == static_cast<int>(Attribute::Kind::string) &&
              METAC_TENSOR == static_cast<int>(Attribute::Kind::tensor) &&
              METAC_INTEGERS == static_cast<int>(Attribute::Kind::integers) &&
              METAC_REALS == static_cast<int>(Attribute::Kind::reals) &&
              METAC_STRINGS == static_cast<int>(Attribute::Kind::strings));

constexpr int32_t most_values = 1 << 20;

// The memory that metac_schema points to.
struct ToldSchema {
  const OpSchema* schema;
  std::vector<const char*> names;
  std::vector<int32_t> kinds, required;
  std::string no_function;
};

const std::deque<ToldSchema>& told_schemas() {
  static const std::deque<ToldSchema>& told = *new std::deque<ToldSchema>([] {
    std::deque<ToldSchema> all;
    for (const OpSchema* schema : all_operators()) {
      ToldSchema& own = all.emplace_back(ToldSchema{schema, {}, {}, {}, lazy::why_no_function(*schema)});
      const int opset = lazy::opset_of(schema->domain);
      for (const AttributeSpec& spec : schema->attributes) {
        if (opset < spec.since || opset >= spec.until) continue;
        if (spec.kind == Attribute::Kind::graph || spec.kind == Attribute::Kind::graphs) continue;
        own.names.push_back(spec.name.c_str());
        own.kinds.push_back(static_cast<int32_t>(spec.kind));
        own.required.push_back(spec.required);
      }
    }
    return all;
  }());
  return told;
}

Attribute attribute_of(const metac_attribute& given) {
  const std::string which = concat("attribute ", quoted(std::string(given.name)));
  Attribute attribute;
  attribute.kind = static_cast<Attribute::Kind>(given.kind);
  if (given.count < 0 || given.count > most_values) refuse(which, ": count is ", given.count);
  const auto listed = [&](const void* values) {
    if (given.count > 0 && !values) refuse(which, ": its values are NULL, and count is ", given.count);
  };
  switch (given.kind) {
    case METAC_INTEGER:
      attribute.integer = given.integer;
      break;
    case METAC_REAL:
      attribute.real = given.real;
      break;
    case METAC_STRING:
      if (!given.string) refuse(which, ": string is NULL");
      attribute.string = given.string;
      break;
    case METAC_TENSOR:
      attribute.tensors.push_back(checked_copy(given.tensor, "attribute"));
      break;
    case METAC_INTEGERS:
      listed(given.integers);
      attribute.integers.assign(given.integers, given.integers + given.count);
      break;
    case METAC_REALS:
      listed(given.reals);
      attribute.reals.assign(given.reals, given.reals + given.count);
      break;
    case METAC_STRINGS:
      listed(given.strings);
      for (int32_t k = 0; k < given.count; ++k) {
        if (!given.strings[k]) refuse(which, ": strings[", k, "] is NULL");
        attribute.strings.emplace_back(given.strings[k]);
      }
      break;
    default:
      refuse(which, ": kind is ", given.kind, ", which metac_attribute_kind has not");
  }
  return attribute;
}

// Of metac_define() and metac_define_file(); null: there is none.
const lazy::Operation* find_operator_of_user(const std::string& domain, const std::string& name,
                                             const std::map<std::string, Attribute>& attributes) {
  for (const ModelFunction& function : given_operators())
    if (function.name == name && function.domain == domain) return lazy::defined_operation(function, attributes);
  return nullptr;
}

}  // namespace

metac_status metac_operator_schema(int32_t index, metac_schema* schema) {
  return answered([&] {
    if (!schema) refuse("schema is NULL");
    check_size("metac_schema", schema->size, offsetof(metac_schema, no_function) + sizeof schema->no_function);
    if (index < 0 || static_cast<size_t>(index) >= told_schemas().size())
      refuse("index is ", index, "; there are ", told_schemas().size(), " operators");
    const ToldSchema& own = told_schemas()[static_cast<size_t>(index)];
    metac_schema told{};
    told.size = schema->size;
    told.domain = own.schema->domain.c_str(), told.name = own.schema->name.c_str();
    told.min_inputs = own.schema->min_inputs, told.max_inputs = own.schema->max_inputs;
    told.min_outputs = own.schema->min_outputs, told.max_outputs = own.schema->max_outputs;
    told.attribute_count = static_cast<int32_t>(own.names.size());
    told.attribute_names = own.names.data();
    told.attribute_kinds = own.kinds.data(), told.attribute_required = own.required.data();
    told.no_function = own.no_function.c_str();
    const size_t known = std::min(told.size, sizeof told);
    std::memset(reinterpret_cast<char*>(schema) + known, 0, told.size - known);
    std::memcpy(schema, &told, known);
  });
}

metac_status metac_operator_find(const char* domain, const char* name, const metac_attribute* attributes, int32_t count,
                                 const metac_operator** found) {
  return answered([&] {
    if (!domain || !name || !found) refuse("domain, name or found is NULL");
    if (count < 0 || count > most_values) refuse("count is ", count);
    if (count > 0 && !attributes) refuse("attributes is NULL, and count is ", count);
    std::map<std::string, Attribute> given;
    for (int32_t k = 0; k < count; ++k) {
      if (!attributes[k].name) refuse("attributes[", k, "]: name is NULL");
      if (!given.emplace(attributes[k].name, attribute_of(attributes[k])).second)
        refuse("attribute ", quoted(std::string(attributes[k].name)), " is given twice");
    }
    const InGraph graph;
    const lazy::Operation* applied = find_operator(domain, name) ? nullptr : find_operator_of_user(domain, name, given);
    if (!applied) applied = lazy::operation(domain, name, std::move(given));
    *found = static_cast<const metac_operator*>(applied);
  });
}
