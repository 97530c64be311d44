#include "compiler/ops/model.h"

#include "compiler/support/diagnostic.h"

namespace metac {

std::string name_of_dim(const Value& input, size_t axis) {
  if (input.type.shape && axis < input.type.shape->size())
    if (const ModelDim& dim = (*input.type.shape)[axis]; dim.value < 0 && !dim.symbol.empty()) return dim.symbol;
  return concat(input.name, "_", axis);
}

std::string describe(const Node& node, int index) {
  std::string out = concat("node #", index);
  if (node.line > 0) out = concat("line ", node.line, ", ", out);
  if (!node.name.empty()) out += " " + quoted(node.name);
  // Operator names come from the file too: plain ones stay readable, others are quoted.
  bool plain = !node.op_type.empty() && node.op_type.size() <= 80;
  for (char c : node.op_type)
    plain &= (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  return out + " (" + (plain ? node.op_type : quoted(node.op_type)) + ")";
}

}  // namespace metac
