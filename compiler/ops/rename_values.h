// Values of a model under other names: what nodes read and write, in the bodies of If, Loop and Scan too, and the names that
// attributes hold (expressions of meta-operators, ai.onnx.preview.training Gradient).
#pragma once
#include <map>
#include <string>

#include "compiler/ops/model.h"

namespace metac {

using ValueNames = std::map<std::string, std::string>;  // as it was -> as it is now

inline void rename_value(const ValueNames& names, std::string& name) {
  if (auto found = names.find(name); found != names.end()) name = found->second;
}

// What the node reads and writes. Its bodies are copied first: they may be shared with other models.
void rename_values(Node& node, const ValueNames& names, int depth = 0);

// What a body takes from outside: names that it gives to values of its own hide those around it.
void rename_values(ModelGraph& body, ValueNames names, int depth = 0);

}  // namespace metac
