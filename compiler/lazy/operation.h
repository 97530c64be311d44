// An operator of the registry with its attributes: what a node applies. There is one object for each, made once and kept for
// the life of the process, so that appending a node again hashes a pointer and not attributes.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "compiler/ops/registry.h"

namespace metac::lazy {

struct Operation {
  std::string domain, name;
  std::map<std::string, Attribute> attributes;
  const OpSchema* schema;  // null: the gradient, which is no function of its operands alone
  uint64_t number;         // of its own among all operations: for hashes within this process
  bool draws = false;      // random numbers: what it gave is kept, for it gives something else another time
  bool stops = false;      // no derivative passes it

  bool is_gradient() const { return schema == nullptr; }
};

// Throws CompileError where the registry has no such operator, where it takes sequences or subgraphs, or where an attribute
// is unknown, of another kind or missing. Integers are taken where an attribute is a real.
const Operation* operation(const std::string& domain, const std::string& name, std::map<std::string, Attribute> attributes);

// The derivatives of its last operand's sum by each of the others, at their values.
const Operation* gradient_operation();

// Why an operator of the registry has no function; empty: it has one.
std::string why_no_function(const OpSchema& schema);

// What nodes of the domain are read as, while they are lazy: the newest opset that there is.
int opset_of(const std::string& domain);

}  // namespace metac::lazy
