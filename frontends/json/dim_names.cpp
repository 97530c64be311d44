#include <algorithm>
#include <set>

#include "compiler/ops/meta/meta_expression.h"
#include "frontends/json/reading.h"

namespace metac {
namespace {

constexpr const char* expression_attributes[] = {"shape",  "indices", "conditions", "fill",    "body",  "value",
                                                 "before", "after",   "starts",     "extents", "steps", "let"};

// Letters and x0, x1, ... name operands of an element-wise body by position.
bool is_positional(const Node& node, const std::string& name) {
  if (node.op_type != "elementwise") return false;
  size_t k = name.size() == 1 && name[0] >= 'a' ? static_cast<size_t>(name[0] - 'a') : SIZE_MAX;
  if (name.size() > 1 && name.size() < 5 && name[0] == 'x' && name.find_first_not_of("0123456789", 1) == std::string::npos)
    k = std::stoul(name.substr(1));
  return k < node.inputs.size();
}

}  // namespace

void check_expression(const JsonDocument& document, const JsonValue& value, const std::string& what) {
  try {
    what == "let" ? static_cast<void>(parse_meta_definition(value.text))
                  : static_cast<void>(parse_meta_expression(value.text));
  } catch (const MetaExpressionError& error) {
    size_t inside = document.is_verbatim(value) ? 1 + error.column : 0;
    document.refuse(value.offset + inside, error.diagnostic.message);
  }
}

DimNames::DimNames(const JsonDocument& document, const std::vector<Value>& inputs, const std::vector<JsonValue>& lets) {
  std::set<std::string> known;
  for (const JsonValue& let : lets) {
    expect(document, let, JsonValue::Kind::string, "an item of \"let\"");
    check_expression(document, let, "let");
    MetaDefinition parsed = parse_meta_definition(let.text);
    Definition d{parsed.names, let.text, {}, "", 0};
    visit_names(parsed.value, [&](const std::string& name) { d.uses.push_back(name); });
    for (const std::string& name : parsed.names)
      if (!known.insert(name).second) document.refuse(let.offset, concat(quoted(name), " is defined twice"));
    definitions_.push_back(std::move(d));
  }
  // Inputs come after: a let of the same name hides what their shapes say.
  std::vector<Definition> of_inputs;
  for (const Value& input : inputs)
    for (size_t axis = 0; input.type.shape && axis < input.type.shape->size(); ++axis) {
      const std::string& name = (*input.type.shape)[axis].symbol;
      if (!is_identifier(name) || axis_of_name(name) >= 0 || !known.insert(name).second) continue;
      of_inputs.push_back({{name}, "", {}, input.name, static_cast<int>(axis)});
    }
  definitions_.insert(definitions_.begin(), of_inputs.begin(), of_inputs.end());
}

void DimNames::complete(Node& node) const {
  std::set<std::string> used;
  for (const char* attribute : expression_attributes) {
    auto found = node.attributes.find(attribute);
    if (found == node.attributes.end()) continue;
    std::vector<std::string> sources = found->second.strings;
    if (found->second.kind == Attribute::Kind::string) sources.push_back(found->second.string);
    for (const std::string& source : sources) {
      bool is_let = std::string_view(attribute) == "let";
      MetaExpression e = is_let ? parse_meta_definition(source).value : parse_meta_expression(source);
      visit_names(e, [&](const std::string& name) {
        if (!is_positional(node, name)) used.insert(name);
      });
    }
  }
  if (auto own = node.attributes.find("let"); own != node.attributes.end())
    for (const std::string& source : own->second.strings)
      for (const std::string& name : parse_meta_definition(source).names) used.erase(name);
  for (const std::string& input : node.inputs) used.erase(input);

  // Backwards, so that what a definition uses is needed too when its turn comes.
  std::vector<const Definition*> needed;
  for (size_t i = definitions_.size(); i-- > 0;) {
    const Definition& d = definitions_[i];
    if (std::none_of(d.names.begin(), d.names.end(), [&](const std::string& name) { return used.count(name) > 0; }))
      continue;
    for (const std::string& name : d.names) used.erase(name);
    used.insert(d.uses.begin(), d.uses.end());
    needed.push_back(&d);
  }
  std::vector<std::string> lets;
  auto operand_number = [&](const std::string& name) {
    auto found = std::find(node.inputs.begin(), node.inputs.end(), name);
    if (found == node.inputs.end()) found = node.inputs.insert(node.inputs.end(), name);
    return found - node.inputs.begin();
  };
  for (size_t i = needed.size(); i-- > 0;) {
    const Definition& d = *needed[i];
    if (d.source.empty()) {
      lets.push_back(concat(d.names[0], " = @", operand_number(d.operand), ".shape[", d.axis, "]"));
      continue;
    }
    for (const std::string& name : d.uses) {
      bool is_dim = std::any_of(definitions_.begin(), definitions_.end(), [&](const Definition& other) {
        return std::find(other.names.begin(), other.names.end(), name) != other.names.end();
      });
      if (!is_dim && name[0] != '@') operand_number(name);
    }
    lets.push_back(d.source);
  }
  if (lets.empty()) return;
  Attribute& attribute = node.attributes["let"];
  attribute.kind = Attribute::Kind::strings;
  attribute.strings.insert(attribute.strings.begin(), lets.begin(), lets.end());
}

}  // namespace metac
