// Where errors enter a model that computes in narrower types: the values of its nodes beside those of the exact one, on the
// same data.
#pragma once
#include <string>
#include <vector>

#include "compiler/quantize/measure/value_errors.h"

namespace metac {

struct LayerError {
  std::string value;     // of the main graph, a float that both models have
  std::string node, op;  // of the exact model, that makes it
  double decibels = 0;   // its signal to noise; infinite: there is no difference
  double before = 0;     // the same of the worst value that the node reads

  // Noise over signal that is not in what the node reads.
  double entered() const;
};

struct LayerErrors {
  std::vector<LayerError> layers;  // in the order of the exact model's nodes
  std::vector<LayerError> outputs;
  int64_t samples = 0;
};

// Both models answer with all their values, so kernels that would have kept some to themselves are apart: what a value is
// rounded to for products that read it, it is rounded to here. Throws CompileError where no value of one has the name of one
// of the other, or data does not fit.
LayerErrors layer_errors(const Model& exact, const SessionOptions& exact_options, const Model& other,
                         const SessionOptions& other_options, const CalibrationData& data);

}  // namespace metac
