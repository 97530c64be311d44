// A model that also answers with values from its inside.
#pragma once
#include <memory>

#include "compiler/quantize/measure/calibration_data.h"
#include "compiler/session/session.h"

namespace metac {

class ObservedModel {
 public:
  // `values`: names of the main graph; those that are inputs or outputs already may be among them.
  ObservedModel(Model model, const std::vector<std::string>& values, const SessionOptions& options);
  // All outputs and the values, by name. What is an input is as it was given.
  NamedTensors run(const NamedTensors& inputs);

 private:
  std::vector<std::string> given_;  // values that are inputs
  std::unique_ptr<Session> session_;
};

// What of a value is known without data: the element type of every value that nodes of the main graph make or that comes in,
// and its rank.
struct KnownType {
  DType dtype;
  int rank;
};
std::map<std::string, KnownType> value_types(const Model& model, const LowerOptions& options);

}  // namespace metac
