// One node against its operator's schema.
#include <algorithm>

#include "compiler/ops/model_lowering.h"
#include "compiler/support/nearest_name.h"

namespace metac {
namespace {

std::string_view name_of(Attribute::Kind kind) {
  static constexpr std::string_view names[] = {"an int",
                                               "a float",
                                               "a string",
                                               "a tensor",
                                               "a graph",
                                               "a list of ints",
                                               "a list of floats",
                                               "a list of strings",
                                               "a list of tensors",
                                               "a list of graphs",
                                               "a type",
                                               "a reference",
                                               "of an unsupported kind"};
  return names[static_cast<int>(kind)];
}

// "2", "1 to 3", "at least 1"
std::string count_text(int min, int max) {
  if (max < 0) return concat("at least ", min);
  return min == max ? concat(min) : concat(min, " to ", max);
}

void check_attributes(const Node& node, const OpSchema& schema, int64_t opset) {
  for (const auto& [name, attribute] : node.attributes) {
    const AttributeSpec* spec = nullptr;
    bool kind_fits = false, opset_fits = false;
    for (const AttributeSpec& s : schema.attributes) {
      if (s.name != name && s.name != "*") continue;  // "*": any other, the operator says what it is
      bool now = opset >= s.since && opset < s.until;
      bool fits = s.kind == attribute.kind || attribute.kind == Attribute::Kind::reference;
      if (!spec || (now && !opset_fits) || (now && fits)) spec = &s;
      opset_fits |= now;
      kind_fits |= now && fits;
    }
    if (!spec) fail("attribute ", quoted(name), " is not one of ", node.op_type);
    if (attribute.kind == Attribute::Kind::unsupported)
      fail("attribute ", quoted(name), ": ", attribute.detail, " is not supported");
    if (!opset_fits && spec->since > opset)
      fail("attribute ", quoted(name), " exists since opset ", spec->since, ", the model uses opset ", opset);
    if (!opset_fits)
      fail("attribute ", quoted(name), " exists until opset ", spec->until - 1, ", the model uses opset ", opset);
    if (!kind_fits) fail("attribute ", quoted(name), " is ", name_of(attribute.kind), ", it must be ", name_of(spec->kind));
  }
  for (const AttributeSpec& s : schema.attributes)
    if (s.required && opset >= s.since && opset < s.until && !node.attributes.count(s.name))
      fail("attribute ", quoted(s.name), " is missing");
}

}  // namespace

std::string display_domain(const std::string& domain) {
  if (domain.empty()) return "ai.onnx";
  bool plain = domain.size() <= 80;
  for (char c : domain)
    plain &= (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c == '.';
  return plain ? domain : quoted(domain);
}

std::string unknown_operator(const Node& node, int64_t opset) {
  std::vector<std::string> known;
  for (const OpSchema* schema : all_operators())
    if (schema->domain == node.domain) known.push_back(schema->name);
  const std::string nearest = nearest_name(node.op_type, known);
  return concat("op ", quoted(node.op_type), " (domain ", display_domain(node.domain), ", opset ", opset,
                ") is not known to this build", nearest.empty() ? std::string() : concat(" (did you mean ", nearest, "?)"),
                "; metac operators lists what is, and a function of the model (local function) may define it");
}

void check_node(const Node& node, const OpSchema& schema, int64_t opset) {
  if (!schema.since.empty() && opset < schema.since.front())
    fail(node.op_type, " exists since opset ", schema.since.front(), ", the model uses opset ", opset);
  int inputs = static_cast<int>(node.inputs.size()), outputs = static_cast<int>(node.outputs.size());
  if (inputs < schema.min_inputs || (schema.max_inputs >= 0 && inputs > schema.max_inputs))
    fail(inputs, " inputs, expected ", count_text(schema.min_inputs, schema.max_inputs));
  if (outputs < schema.min_outputs || (schema.max_outputs >= 0 && outputs > schema.max_outputs))
    fail(outputs, " outputs, expected ", count_text(schema.min_outputs, schema.max_outputs));
  check_attributes(node, schema, opset);
}

}  // namespace metac
