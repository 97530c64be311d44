// SmoothQuant (Xiao et al., arXiv:2211.10438): the channels of what a matrix product reads are made of like size by a factor
// each, which goes into its weights, so that one scale fits all of them. The function of the float32 model stays the same.
#pragma once
#include "compiler/quantize/measure/calibration_data.h"
#include "compiler/quantize/measure/observed_model.h"
#include "compiler/support/node_patterns.h"

namespace metac {

// For values that only MatMul and Gemm with constant weights read and whose producer can take the factors in: a
// LayerNormalization or RMSNormalization with constant scale, or the product with constants, with or without an addition of
// constants behind it, that a normalisation ends with. Channel j is divided by s_j = max|X_j|^alpha / max|W_j|^(1 - alpha)
// (equation 4), the first over the data, the second over all its readers. Nodes that `keep` names are left alone. Returns
// how many products read smoothed values.
int smooth_activations(Model& model, const std::map<std::string, KnownType>& types, const NodePatterns& keep, double alpha,
                       const CalibrationData& data, const SessionOptions& options);

}  // namespace metac
