// An operator, of the registry or a user's, with its attributes: what a node applies. There is one object for each, made once and kept for
// the life of the process, so that appending a node again hashes a pointer and not attributes.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "compiler/ops/model.h"
#include "compiler/ops/registry.h"

namespace metac::lazy {

struct Operation {
  std::string domain, name;
  std::map<std::string, Attribute> attributes;
  const OpSchema* schema;  // null: a user's operator, or the gradient, which is no function of its operands alone
  uint64_t number;         // of its own among all operations: for hashes within this process
  bool draws = false;      // random numbers: what it gave is kept, for it gives something else another time
  bool stops = false;      // no derivative passes it
  std::shared_ptr<const ModelFunction> definition;  // of a user's: models that apply it carry it

  bool is_gradient() const { return !schema && !definition; }
  int least_outputs() const { return schema ? schema->min_outputs : 1; }
  int most_outputs() const { return schema ? schema->max_outputs : 1; }  // -1: any number
};

// Throws CompileError where the registry has no such operator, where it takes sequences or subgraphs, or where an attribute
// is unknown, of another kind or missing. Integers are taken where an attribute is a real.
const Operation* operation(const std::string& domain, const std::string& name, std::map<std::string, Attribute> attributes);

// Of an operator that a formula defines (compiler/ops/defined/operator_definition.h). Another definition of the same name is
// another operation. Throws CompileError where it is no formula, or where an attribute is unknown or no number.
const Operation* defined_operation(const ModelFunction& definition, std::map<std::string, Attribute> attributes);

// The derivatives of its last operand's sum by each of the others, at their values.
const Operation* gradient_operation();

// Why an operator of the registry has no function; empty: it has one.
std::string why_no_function(const OpSchema& schema);

// What nodes of the domain are read as, while they are lazy: the newest opset that there is.
int opset_of(const std::string& domain);

}  // namespace metac::lazy
