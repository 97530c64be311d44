// Attributes of nodes: those that the compiler itself writes, and those of nodes that were read.
#pragma once
#include <string_view>

#include "compiler/ops/model.h"

namespace metac {

Attribute integer_attribute(int64_t value);
Attribute real_attribute(double value);
Attribute integers_attribute(std::vector<int64_t> values);
Attribute string_attribute(std::string value);
Attribute strings_attribute(std::vector<std::string> values);
Attribute tensor_attribute(Tensor value);

const Attribute* find_attribute(const Node& node, std::string_view name);  // null: the node has none
int64_t integer_or(const Node& node, std::string_view name, int64_t otherwise);
double real_or(const Node& node, std::string_view name, double otherwise);

}  // namespace metac
