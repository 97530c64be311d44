// Operators that a user defines by a formula. A definition becomes a local function of a model, whose one node is a
// metac expression (expression_operator.cpp): it is part of the model that it is added to, and of no other.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "compiler/ops/model.h"

namespace metac {

// The domain of operators whose definition names none.
constexpr const char* user_domain = "user";

struct OperatorDefinition {
  // "mish", "huber(x, delta = 1)", "com.example::huber(x, delta = 1)": a parameter is an operand, one with a number behind
  // it an attribute with that default. Without parentheses the parameters are the names of the body, in order of appearance.
  std::string signature;
  std::string body;                             // the result: compiler/ops/defined/formula.h
  std::map<std::string, std::string> gradient;  // by operand: its adjoint, of `y` and `dy` too; else by the rules
  bool fusible = true;                          // false: a kernel of its own
};

// Throws MetaExpressionError, which points into the signature, the body or a gradient, or another CompileError.
ModelFunction function_of_definition(const OperatorDefinition& definition);

// A function as front ends make it: what surrounds the node that computes.
struct DefinedParameter {
  std::string name;
  bool is_attribute = false, is_whole = false;
  double otherwise = 0;  // of an attribute
};
// `op_type`: the operator of domain metac that the node is, "expression" or "code"; the node has the attributes of its own.
ModelFunction function_of_node(const std::string& domain, const std::string& name,
                               const std::vector<DefinedParameter>& parameters, const std::string& op_type, Node node);

// Gives the model those of the functions that its nodes call; where it has one of the same name and domain, theirs is taken.
void add_called(Model& model, const std::vector<ModelFunction>& functions);

}  // namespace metac
