// What rounding the weights adds to the results of contractions in the mean, channel by channel (M. Nagel et al., "Data-free
// quantization through weight equalization and bias correction", 2019; here measured on data).
#pragma once
#include "compiler/quantize/write_qdq.h"

namespace metac {

// To be added to the biases, by node: the float results less those of the rounded weights, both from the same operands.
std::map<int, std::vector<double>> bias_shifts(const Model& model, const QuantizationPlan& plan, const QdqOptions& qdq,
                                               const CalibrationData& data, const SessionOptions& options);

}  // namespace metac
