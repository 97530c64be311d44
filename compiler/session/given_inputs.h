// The inputs that a caller gives, against what the model says of them.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "compiler/ops/model.h"

namespace metac {

// The inputs that a caller gives: the graph's, less those that are initialisers only.
std::vector<Value> free_inputs(const Model& model);

// The initialiser of that name; null: there is none.
const Initializer* initializer_of(const Model& model, const std::string& name);

// "float32 1x3x?x?": what the model says of a value.
std::string describe_type(const ValueType& type);

// Throws CompileError naming what is missing, unknown or of another dtype, rank or shape.
void check_inputs(const Model& model, const std::map<std::string, Tensor>& inputs);

}  // namespace metac
