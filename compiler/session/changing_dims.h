// Which dims of the inputs keep changing from run to run, and which settle on a few values.
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "compiler/session/reliance.h"

namespace metac {

class ChangingDims {
 public:
  // A dim that had more than `most` values keeps changing.
  ChangingDims(const Model& model, size_t most) : model_(&model), most_(most) {}

  void observe(const NamedTensors& inputs);
  // `reliance` with the dims that keep changing open.
  Reliance without_changing(Reliance reliance) const;
  // The names of dims that had more than so many values, "batch, tokens"; "" where there are none.
  std::string names(size_t values) const;
  std::string names() const { return names(most_); }

 private:
  bool changes(size_t input, size_t axis, size_t values) const;

  const Model* model_;
  size_t most_;
  std::vector<std::vector<std::set<int64_t>>> values_;  // by input and axis
};

}  // namespace metac
