#include "compiler/session/changing_dims.h"

#include <algorithm>

#include "compiler/support/diagnostic.h"

namespace metac {

void ChangingDims::observe(const NamedTensors& inputs) {
  const std::vector<Value>& declared = model_->graph.inputs;
  values_.resize(declared.size());
  for (size_t i = 0; i < declared.size(); ++i) {
    const auto given = inputs.find(declared[i].name);
    if (given == inputs.end()) continue;
    const std::vector<int64_t>& shape = given->second.shape;
    if (values_[i].size() < shape.size()) values_[i].resize(shape.size());
    for (size_t k = 0; k < shape.size(); ++k)
      if (values_[i][k].size() <= most_) values_[i][k].insert(shape[k]);
  }
}

bool ChangingDims::changes(size_t input, size_t axis, size_t values) const {
  return input < values_.size() && axis < values_[input].size() && values_[input][axis].size() > values;
}

Reliance ChangingDims::without_changing(Reliance reliance) const {
  for (size_t i = 0; i < model_->graph.inputs.size(); ++i) {
    const Value& input = model_->graph.inputs[i];
    const auto row = std::find_if(reliance.inputs.begin(), reliance.inputs.end(),
                                  [&](const Reliance::Input& one) { return one.name == input.name; });
    if (row == reliance.inputs.end() || row->value) continue;
    for (size_t k = 0; k < row->dims.size(); ++k)
      if (changes(i, k, most_) && row->dims[k] > 0) row->dims[k] = Reliance::open;
  }
  return reliance;
}

std::string ChangingDims::names(size_t values) const {
  std::set<std::string> names;
  for (size_t i = 0; i < values_.size(); ++i)
    for (size_t k = 0; k < values_[i].size(); ++k) {
      if (!changes(i, k, values)) continue;
      const Value& input = model_->graph.inputs[i];
      const std::string symbol = input.type.shape ? (*input.type.shape)[k].symbol : "";
      names.insert(symbol.empty() ? concat(input.name, "_", k) : symbol);
    }
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + shown(name);
  return text;
}

}  // namespace metac
