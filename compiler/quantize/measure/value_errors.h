// How far the values of a quantised model lie from those of the float32 one, on the same data.
#pragma once
#include "compiler/quantize/measure/observed_model.h"

namespace metac {

struct SignalToNoise {
  double signal = 0, noise = 0;  // sums of squares
  double decibels() const;       // infinite where there is no noise
  void add(const Tensor& exact, const Tensor& found);
};

// By name of the values in `exact`; `pairs`: name there, name in `changed`. Outputs are compared too. `samples`: how many
// there were.
using ValueErrors = std::map<std::string, SignalToNoise>;
ValueErrors value_errors(ObservedModel& exact, const Model& changed, const std::map<std::string, std::string>& pairs,
                         const std::vector<std::string>& outputs, const CalibrationData& data, const SessionOptions& options,
                         int64_t* samples = nullptr);

// The worst of the outputs.
double least_decibels(const ValueErrors& errors, const std::vector<std::string>& outputs);

}  // namespace metac
