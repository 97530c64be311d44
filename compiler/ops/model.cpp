#include "compiler/ops/model.h"

#include "compiler/support/diagnostic.h"

namespace metac {

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
