// Attributes of nodes that the compiler itself writes.
#pragma once
#include "compiler/ops/model.h"

namespace metac {

Attribute integer_attribute(int64_t value);
Attribute real_attribute(double value);
Attribute integers_attribute(std::vector<int64_t> values);
Attribute string_attribute(std::string value);
Attribute strings_attribute(std::vector<std::string> values);
Attribute tensor_attribute(Tensor value);

}  // namespace metac
