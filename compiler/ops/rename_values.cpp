#include "compiler/ops/rename_values.h"

#include <algorithm>
#include <cctype>

#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Expressions of meta-operators may call operands by their names, which a copy does not have: "@k" means the same.
std::string by_position(const std::string& text, const std::vector<std::string>& operands) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (!in_name(text[at])) {
      out += text[at++];
      continue;
    }
    const size_t begin = at;
    while (at < text.size() && in_name(text[at])) ++at;
    const std::string word = text.substr(begin, at - begin);
    const bool is_counted = begin > 0 && (text[begin - 1] == '@' || text[begin - 1] == '.');  // "@1", "x.shape"
    const auto found = std::find(operands.begin(), operands.end(), word);
    out += is_counted || found == operands.end() || std::isdigit(static_cast<unsigned char>(word[0]))
               ? word
               : concat("@", found - operands.begin());
  }
  return out;
}

}  // namespace

void rename_values(Node& node, const ValueNames& names, int depth) {
  if (node.domain == "metac")
    for (auto& [name, attribute] : node.attributes)
      if (name != "dtype" && name != "reduce" && name != "cpu" && name != "grad" && name != "tangent") {
        attribute.string = by_position(attribute.string, node.inputs);
        for (std::string& text : attribute.strings) text = by_position(text, node.inputs);
      }
  if (node.domain == "ai.onnx.preview.training" && node.op_type == "Gradient")
    for (auto& [name, attribute] : node.attributes) {
      rename_value(names, attribute.string);
      for (std::string& value : attribute.strings) rename_value(names, value);
    }
  for (std::string& input : node.inputs) rename_value(names, input);
  for (std::string& output : node.outputs) rename_value(names, output);
  if (depth > 100) return;  // deeper than any model may nest: lowering refuses it
  for (auto& [name, attribute] : node.attributes)
    for (std::shared_ptr<ModelGraph>& body : attribute.graphs)
      if (body) {
        body = std::make_shared<ModelGraph>(*body);
        rename_values(*body, names, depth + 1);
      }
}

void rename_values(ModelGraph& body, ValueNames names, int depth) {
  for (const Value& v : body.inputs) names.erase(v.name);
  for (const Initializer& i : body.initializers) names.erase(i.name);
  for (const Node& node : body.nodes)
    for (const std::string& output : node.outputs) names.erase(output);
  for (Node& node : body.nodes) rename_values(node, names, depth);
  for (Value& output : body.outputs) rename_value(names, output.name);
}

}  // namespace metac
