// metac quantize: a float32 model as one of small types, in plain ONNX.
#include "compiler/quantize/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "compiler/driver/command.h"
#include "compiler/driver/options/model_options.h"
#include "compiler/driver/options/quantities.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/file_system.h"
#include "frontends/onnx/onnx.h"
#include "frontends/read_model.h"

namespace metac {
namespace {

using Json = nlohmann::ordered_json;

struct QuantizeArguments : ModelOptions {
  std::string output, calibration = "minmax", activations = "uint8", weights, to, report;
  std::vector<std::string> data, keep;
  std::optional<double> smooth;
  double percentile = 99.99, least_snr = 0;
  bool per_tensor = false, reduce_range = false, bias_correction = false, nearest = false;
  int64_t block = 32, batch = 8, samples = 0, weight_bits = 8;
};

QuantizeOptions options_of(const QuantizeArguments& a) {
  QuantizeOptions o;
  o.session = a.session();
  o.data = a.data, o.keep = a.keep;
  o.batches = {a.batch, a.samples};
  o.calibration = *calibration_named(a.calibration);
  o.percentile = a.percentile;
  o.activations = a.activations == "int8" ? DType::i8 : DType::u8;
  o.per_tensor = a.per_tensor, o.bias_correction = a.bias_correction;
  o.weight_bits = static_cast<int>(a.reduce_range ? std::min<int64_t>(a.weight_bits, 7) : a.weight_bits);
  o.smooth = a.smooth;
  o.least_decibels = a.least_snr;
  o.block = a.block, o.compensate = !a.nearest;
  if (!a.weights.empty() && !a.to.empty()) throw UsageError("--weights and --to exclude each other");
  if (!a.weights.empty()) o.form = QuantizeOptions::Form::weights, o.bits = a.weights == "int8" ? 8 : 4;
  if (!a.to.empty()) o.form = QuantizeOptions::Form::half, o.half = a.to == "float16" ? DType::f16 : DType::bf16;
  if (o.form == QuantizeOptions::Form::int8 && a.data.empty())
    throw UsageError("int8 needs --data, to see the ranges of values on (--weights and --to do not)");
  if (a.output.ends_with(".json")) throw UsageError("-o " + quoted(a.output) + ": the model is written as ONNX");
  return o;
}

Json decibels_json(double decibels) { return std::isfinite(decibels) ? Json(decibels) : Json(nullptr); }

int64_t bytes_of_file(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

Json json_of(const QuantizeReport& r, const QuantizeArguments& a) {
  const auto rows = [](const std::vector<QuantizedValueRow>& list) {
    Json array = Json::array();
    for (const QuantizedValueRow& row : list) {
      Json each = {{"name", row.name}, {"snr_db", decibels_json(row.decibels)}};
      if (row.scale) each["scale"] = row.scale->scale, each["zero_point"] = row.scale->zero_point;
      array.push_back(std::move(each));
    }
    return array;
  };
  return {{"model", a.model},
          {"output", a.output},
          {"form", r.form},
          {"samples", r.samples},
          {"quantized_nodes", r.quantized},
          {"weight_bytes", {{"before", r.weight_bytes_before}, {"after", r.weight_bytes_after}}},
          {"file_bytes", {{"before", bytes_of_file(a.model)}, {"after", bytes_of_file(a.output)}}},
          {"outputs", rows(r.outputs)},
          {"values", rows(r.values)},
          {"kept", r.kept},
          {"notes", r.notes}};
}

void print(const QuantizeReport& r, const QuantizeArguments& a) {
  std::printf("%s: %s, %lld nodes", a.output.c_str(), r.form.c_str(), static_cast<long long>(r.quantized));
  if (r.samples > 0) std::printf(", seen on %lld samples", static_cast<long long>(r.samples));
  std::printf("\nweights: %s -> %s\n", show_bytes(r.weight_bytes_before).c_str(), show_bytes(r.weight_bytes_after).c_str());
  for (const QuantizedValueRow& row : r.outputs)
    std::printf("output %s: signal to noise %s\n", quoted(row.name).c_str(), show_decibels(row.decibels).c_str());
  std::vector<QuantizedValueRow> worst = r.values;
  std::stable_sort(worst.begin(), worst.end(), [](const auto& x, const auto& y) { return x.decibels < y.decibels; });
  constexpr size_t shown_rows = 8;
  if (!worst.empty()) std::printf("values, the furthest from float32 first:\n");
  for (size_t i = 0; i < std::min(worst.size(), shown_rows); ++i)
    std::printf("  %10s  %s\n", show_decibels(worst[i].decibels).c_str(), quoted(worst[i].name).c_str());
  if (worst.size() > shown_rows) std::printf("  and %zu more (--report has all)\n", worst.size() - shown_rows);
  for (const std::string& name : r.kept) std::printf("in float32: %s\n", name.c_str());
  for (const std::string& text : r.notes) std::printf("note: %s\n", text.c_str());
}

int quantize_command(const QuantizeArguments& a) {
  const QuantizeOptions options = options_of(a);
  QuantizeReport report;
  const Model model = quantize_model(read_model(a.model), options, report);
  make_parents(a.output);
  write_onnx(model, a.output);
  if (!a.report.empty()) {
    make_parents(a.report);
    write_file(a.report, json_of(report, a).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  }
  print(report, a);
  return exit_good;
}

}  // namespace

void add_quantize_command(CLI::App& app, int* status) {
  auto o = std::make_shared<QuantizeArguments>();
  CLI::App* command = app.add_subcommand(
      "quantize", "a float32 model in int8, with weights of 4 or 8 bits, or in a half type, as plain ONNX");
  add_model_argument(*command, *o);
  command->add_option("-o,--output", o->output, "the ONNX file to write")->required()->type_name("FILE.onnx");
  command
      ->add_option("--data", o->data,
                   "samples to see values on: a folder of .npz files (a batch each, inputs by name), a .npz file (the first "
                   "axis is cut into batches), or .npy files where the model has one input")
      ->type_name("FOLDER|FILE...");
  command->add_option("--batch", o->batch, "samples of one run, where the model's first dim is open")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command->add_option("--samples", o->samples, "look at so many samples at most; 0: all")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--calibration", o->calibration,
                   "how the range of a value follows from what was seen: all of it, without outliers, by divergence or by "
                   "square error")
      ->capture_default_str()
      ->check(CLI::IsMember({"minmax", "percentile", "entropy", "mse"}));
  command
      ->add_option("--percentile", o->percentile, "what part of the elements --calibration percentile covers, at each end")
      ->capture_default_str()
      ->check(CLI::Range(50.0, 100.0));
  command->add_option("--activations", o->activations, "how int8 models store values")
      ->capture_default_str()
      ->check(CLI::IsMember({"uint8", "int8"}));
  command->add_flag("--per-tensor", o->per_tensor, "one scale for all channels of a weight");
  command->add_flag("--reduce-range", o->reduce_range,
                    "weights of 7 bits, for engines whose products of bytes saturate on processors without VNNI");
  command
      ->add_option("--weight-bits", o->weight_bits,
                   "of int8 models: weights take so few bits of their int8, 2 to 8, to see what they cost in accuracy")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{2}, int64_t{8}));
  command->add_flag("--bias-correction", o->bias_correction,
                    "take out of the biases what rounding adds to them in the mean");
  command
      ->add_option(
          "--smooth", o->smooth,
          "of int8 models: make the channels of what matrix products read behind normalisations alike, in favour of "
          "weights (0) or of values (1) (SmoothQuant's alpha; 0.5 is usual)")
      ->type_name("ALPHA")
      ->check(CLI::Range(0.0, 1.0));
  command
      ->add_option("--least-snr", o->least_snr,
                   "keep the fewest layers in float32 with which all outputs reach this signal-to-noise ratio")
      ->type_name("DB")
      ->check(CLI::PositiveNumber);
  command->add_option("--keep", o->keep, "nodes that stay in float32: a regular expression for names or operators")
      ->type_name("PATTERN")
      ->allow_extra_args(false);  // one each time, so that a model may follow
  command->add_option("--weights", o->weights, "only the weights of matrix products, in blocks (MatMulNBits)")
      ->check(CLI::IsMember({"int8", "int4"}));
  command->add_option("--block", o->block, "elements that share a scale, with --weights")
      ->capture_default_str()
      ->check(CLI::IsMember({16, 32, 64, 128, 256}));
  command->add_flag("--nearest", o->nearest,
                    "with --weights and --data: round each weight to the nearest, do not "
                    "let others make up for it");
  command->add_option("--to", o->to, "weights and values in a half type; inputs and outputs stay float32")
      ->check(CLI::IsMember({"float16", "bfloat16"}));
  command->add_option("--report", o->report, "write the errors of all values as JSON")->type_name("FILE.json");
  add_shape_options(*command, *o);
  add_ops_option(*command, *o);
  add_threads_option(*command, *o);
  add_compile_options(*command, *o);
  command->callback([=] { *status = quantize_command(*o); });
}

}  // namespace metac
