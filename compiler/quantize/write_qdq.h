// A model with QuantizeLinear and DequantizeLinear where a plan says, and with its weights as integers.
#pragma once
#include "compiler/quantize/measure/value_range.h"
#include "compiler/quantize/quantization_plan.h"
#include "compiler/train/quantized_network.h"

namespace metac {

struct QdqOptions {
  DType activations = DType::u8;
  bool per_tensor = false;
  int most_weight = 127;  // magnitude of a weight's integers
  // The form that trains: fake_quantize nodes in the places of the pairs, weights and biases as they are. Scales have the
  // names that they have in the other form.
  bool trained = false;
};

struct QdqModel {
  Model model;
  std::map<std::string, std::string> dequantized;  // the value of the float model: its name behind DequantizeLinear
  std::map<std::string, Affine> scales;            // of the values of the plan
  std::vector<QuantizedNetwork::Weight> weights;
  std::vector<QuantizedNetwork::Bias> biases;
};

// What was found out about a value with data.
struct QdqData {
  std::map<std::string, ValueRange> ranges;        // of the plan's values
  std::map<int, std::vector<double>> bias_shifts;  // by node: added to its bias, channel by channel
};

// Throws CompileError where a weight is no number.
QdqModel write_qdq(const Model& model, const QuantizationPlan& plan, const QdqData& data, const QdqOptions& options);

// Int8 from -`most` to `most` by the largest magnitude of each slice along the axis (-1: of all), at the least scales given
// (empty: any).
struct SymmetricWeights {
  Tensor integers, scales, zero_points;
};
SymmetricWeights symmetric_weights(const Tensor& weights, int axis, int most, const std::vector<double>& least_scales);

}  // namespace metac
