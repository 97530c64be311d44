#include "compiler/ir/code_op.h"

#include "compiler/support/diagnostic.h"

namespace metac {

Var* make_code(Graph& graph, std::vector<Var*> inputs, Type output, const CodeBody& body) {
  std::vector<std::string> operands = body.operands;
  for (size_t k = operands.size(); k < inputs.size(); ++k) operands.push_back(concat("in", k));
  Op* op = graph.make_op(OpKind::code, std::move(inputs), {std::move(output)});
  op->routine = "code";
  op->source = body.source;
  op->attributes["operands"] = std::move(operands);
  op->attributes["grad"] = body.gradients;
  op->attributes["tangent"] = body.tangent;
  return op->outputs[0];
}

CodeBody code_of(const Op& op) {
  CodeBody body;
  body.source = op.source;
  body.operands = std::get<std::vector<std::string>>(op.attributes.at("operands"));
  body.gradients = std::get<std::vector<std::string>>(op.attributes.at("grad"));
  body.tangent = std::get<std::string>(op.attributes.at("tangent"));
  return body;
}

}  // namespace metac
