// Post-training quantisation: a float32 model to one of small types, and how far its values then lie from the float32 ones.
#pragma once
#include <optional>

#include "compiler/quantize/measure/calibration_data.h"
#include "compiler/quantize/measure/value_range.h"
#include "compiler/session/session.h"
#include "compiler/train/quantized_network.h"

namespace metac {

struct QuantizeOptions {
  // What becomes small: weights and activations as int8 between QuantizeLinear and DequantizeLinear; weights alone in blocks
  // of 4 or 8 bits; or all in a half type.
  enum class Form { int8, weights, half };
  Form form = Form::int8;
  SessionOptions session;
  std::vector<std::string> data;        // files and folders; may be empty where `form` needs none
  std::optional<NamedTensors> samples;  // instead: samples of the inputs, the batch first, and
  std::string samples_origin;           // where they come from, for messages
  CalibrationData::Options batches;
  std::vector<std::string> keep;  // patterns

  Calibration calibration = Calibration::minmax;
  double percentile = 99.99;
  DType activations = DType::u8;
  bool per_tensor = false, bias_correction = false;
  int weight_bits = 8;  // 2 to 8: so few of a weight's int8 are used. 7 for engines whose products of bytes saturate
  std::optional<double> smooth;  // alpha of smooth_activations.h
  double least_decibels = 0;     // > 0: layers stay in float until the outputs are as close as that

  int bits = 4;
  int64_t block = 32;
  bool compensate = true;  // where there is data

  DType half = DType::f16;
};

struct QuantizedValueRow {
  std::string name;
  double decibels = 0;  // signal to noise; infinite: no difference
  std::optional<Affine> scale;
};

struct QuantizeReport {
  std::string form;       // "int8", "weights int4", "float16"
  int64_t samples = 0;    // 0: nothing was measured
  int64_t quantized = 0;  // contractions, products or nodes
  std::vector<QuantizedValueRow> values, outputs;
  int64_t weight_bytes_before = 0, weight_bytes_after = 0;
  std::vector<std::string> kept;  // nodes that stay in float, as --keep or the search decided
  std::vector<std::string> notes;
};

// Throws CompileError: nothing to quantise, a model that is quantised already, data that does not fit.
Model quantize_model(Model model, const QuantizeOptions& options, QuantizeReport& report);
// Throws CompileError where a node of the model works on quantised numbers already.
void refuse_quantized(const Model& model);
// As int8, in both forms. Bias correction and searches are for networks that do not train.
QuantizedNetwork quantize_to_train(Model model, const QuantizeOptions& options);

}  // namespace metac
