#include "compiler/autodiff/code_rules.h"

#include "compiler/autodiff/reverse.h"
#include "compiler/ir/code_op.h"
#include "compiler/support/diagnostic.h"

namespace metac {

namespace {

[[noreturn]] void refuse(const Op& op, const std::string& what) {
  fail("node #", op.origin.node, " (code): ", what, ". The C++ of a derivative has none itself");
}

}  // namespace

std::vector<Var*> code_gradients(Graph& graph, const Op& op, Var* adjoint,
                                 const std::function<bool(const Var*)>& is_active) {
  const CodeBody body = code_of(op);
  std::vector<Var*> out(op.inputs.size(), nullptr);
  for (size_t k = 0; k < op.inputs.size(); ++k) {
    if (!is_active(op.inputs[k])) continue;
    if (k >= body.gradients.size()) refuse(op, concat("its C++ has no derivative by input ", k, ": \"grad\" gives none"));
    if (body.gradients[k].empty()) continue;
    CodeBody backward;
    backward.source = body.gradients[k];
    backward.operands = body.operands;
    backward.operands.push_back("pout");
    backward.operands.push_back("dout");
    std::vector<Var*> inputs = op.inputs;
    inputs.push_back(op.outputs[0]);
    inputs.push_back(adjoint);
    out[k] = make_code(graph, std::move(inputs), op.inputs[k]->type, backward);
  }
  return out;
}

Var* code_tangent(Graph& graph, const Op& op, const std::vector<Var*>& tangents) {
  const CodeBody body = code_of(op);
  if (body.tangent.empty())
    refuse(op,
           "its C++ has no derivative in forward mode: \"tangent\" is not given; --derivatives vjp makes gradients alone");
  CodeBody forward;
  forward.source = body.tangent;
  forward.operands = body.operands;
  std::vector<Var*> inputs = op.inputs;
  for (size_t k = 0; k < op.inputs.size(); ++k) {
    if (!is_float(op.inputs[k]->dtype())) continue;
    forward.operands.push_back(concat("tin", k));
    inputs.push_back(tangents[k] ? tangents[k] : zeros_like(graph, op.inputs[k]));
  }
  forward.operands.push_back("pout");
  inputs.push_back(op.outputs[0]);
  return make_code(graph, std::move(inputs), op.outputs[0]->type, forward);
}

}  // namespace metac
