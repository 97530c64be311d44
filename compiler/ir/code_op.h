// Ops that are the user's C++ (OpKind::code): how they are made and what they hold. The text is a sequence of statements in
// which every operand is a pointer to row-major elements and every dim of it an int64: in0, in0_shape0, in0_shape1, ...,
// out, out_shape0.
#pragma once
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace metac {

struct CodeBody {
  std::string source;                 // writes every element of out
  std::vector<std::string> operands;  // the names of the inputs in the text; empty: in0, in1, ...
  // Derivatives, likewise: for every input the text that makes the gradient by it ("": none) from in0, ..., pout (the
  // output) and dout (its adjoint); the text that makes the output's tangent from in0, ..., tin0 (tangents of the floats
  // among them), ..., pout.
  std::vector<std::string> gradients;
  std::string tangent;
};

Var* make_code(Graph& graph, std::vector<Var*> inputs, Type output, const CodeBody& body);
CodeBody code_of(const Op& op);

}  // namespace metac
