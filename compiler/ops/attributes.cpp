#include "compiler/ops/attributes.h"

#include <utility>

namespace metac {

Attribute integer_attribute(int64_t value) {
  Attribute a;
  a.kind = Attribute::Kind::integer;
  a.integer = value;
  return a;
}
Attribute real_attribute(double value) {
  Attribute a;
  a.kind = Attribute::Kind::real;
  a.real = value;
  return a;
}
Attribute integers_attribute(std::vector<int64_t> values) {
  Attribute a;
  a.kind = Attribute::Kind::integers;
  a.integers = std::move(values);
  return a;
}
Attribute string_attribute(std::string value) {
  Attribute a;
  a.kind = Attribute::Kind::string;
  a.string = std::move(value);
  return a;
}
Attribute strings_attribute(std::vector<std::string> values) {
  Attribute a;
  a.kind = Attribute::Kind::strings;
  a.strings = std::move(values);
  return a;
}
Attribute tensor_attribute(Tensor value) {
  Attribute a;
  a.kind = Attribute::Kind::tensor;
  a.tensors.push_back(std::move(value));
  return a;
}

const Attribute* find_attribute(const Node& node, std::string_view name) {
  const auto found = node.attributes.find(std::string(name));
  return found == node.attributes.end() ? nullptr : &found->second;
}

int64_t integer_or(const Node& node, std::string_view name, int64_t otherwise) {
  const Attribute* found = find_attribute(node, name);
  return found ? found->integer : otherwise;
}

double real_or(const Node& node, std::string_view name, double otherwise) {
  const Attribute* found = find_attribute(node, name);
  return found ? found->real : otherwise;
}

}  // namespace metac
