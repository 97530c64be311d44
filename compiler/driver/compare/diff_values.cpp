#include "compiler/driver/compare/diff_values.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "compiler/driver/command.h"
#include "compiler/driver/options/quantities.h"
#include "compiler/quantize/measure/layer_errors.h"
#include "compiler/support/diagnostic.h"
#include "compiler/target/target.h"
#include "frontends/read_model.h"

namespace metac {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const std::vector<LayerError>& layers) {
  const auto number = [](double decibels) { return std::isfinite(decibels) ? Json(decibels) : Json(nullptr); };
  Json rows = Json::array();
  for (const LayerError& layer : layers)
    rows.push_back({{"name", layer.value},
                    {"node", layer.node},
                    {"operator", layer.op},
                    {"snr_db", number(layer.decibels)},
                    {"snr_db_of_inputs", number(layer.before)},
                    {"noise_added", layer.entered()}});
  return rows;
}

void print(const LayerErrors& errors, const std::string& what) {
  constexpr size_t most = 12;
  std::printf("%s beside float32, on %lld samples\n", what.c_str(), static_cast<long long>(errors.samples));
  for (const LayerError& output : errors.outputs)
    std::printf("output %s: signal to noise %s\n", quoted(output.value).c_str(), show_decibels(output.decibels).c_str());
  std::vector<LayerError> by_share;
  std::ranges::copy_if(errors.layers, std::back_inserter(by_share), [](const LayerError& l) { return l.entered() > 0; });
  std::ranges::stable_sort(by_share, std::greater<>(), &LayerError::entered);
  if (by_share.empty()) return void(std::printf("no value differs\n"));
  std::printf("where errors enter, the most first:\n  %10s  %14s\n", "value", "what it reads");
  for (size_t k = 0; k < std::min(most, by_share.size()); ++k) {
    const LayerError& l = by_share[k];
    std::printf("  %10s  %14s  %s (%s%s%s)\n", show_decibels(l.decibels).c_str(), show_decibels(l.before).c_str(),
                quoted(l.value).c_str(), l.op.c_str(), l.node.empty() ? "" : " ",
                l.node.empty() ? "" : quoted(l.node).c_str());
  }
  if (by_share.size() > most) std::printf("  and %zu more (--json has all)\n", by_share.size() - most);
}

Model model_of(const std::string& path) {
  if (std::filesystem::is_directory(path))
    throw UsageError(concat(quoted(path), " is a folder: --data runs models, files of ONNX or JSON"));
  return read_model(path);
}

}  // namespace

void add_diff_values_options(CLI::App& command, DiffValuesOptions& options) {
  const size_t others = command.get_options().size();
  CLI::Option* const data =
      command
          .add_option(
              "--data", options.data,
              "compare the values of two models, or of one with --precision, on these samples: a folder of .npz "
              "files (a batch each, inputs by name), a .npz file (the first axis is cut into batches), or .npy files "
              "where the model has one input")
          ->type_name("FOLDER|FILE...");
  command.add_option("--batch", options.batch, "samples of one run, where the model's first dim is open")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command.add_option("--samples", options.samples, "look at so many samples at most; 0: all")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command
      .add_option("--least-snr", options.least_snr,
                  "with --data: exit status 3 where an output has less signal to noise than that")
      ->type_name("DB")
      ->check(CLI::PositiveNumber);
  add_precision_options(command, options);
  add_shape_options(command, options);
  add_ops_option(command, options);
  add_threads_option(command, options);
  add_compile_options(command, options);
  const std::vector<CLI::Option*> all = command.get_options();
  for (size_t k = others; k < all.size(); ++k)
    if (all[k] != data) all[k]->needs(data);
}

int diff_values(const DiffValuesOptions& o) {
  o.check_precision(false, *targets()[0]);
  if (o.other.empty() && o.precision == "float32")
    throw UsageError("--data compares two models, or one with --precision bfloat16, int8 or auto");
  const Model exact = model_of(o.model), other = o.other.empty() ? exact : model_of(o.other);
  o.note_kept(other);
  ModelOptions wide = o;
  wide.precision = "float32";
  wide.keep.clear();
  const CalibrationData data(exact, o.data, {o.batch, o.samples});
  const LayerErrors errors = layer_errors(exact, wide.session(), other, o.session(), data);
  std::string what = o.other.empty() ? o.model : o.other;
  if (o.precision != "float32") what += concat(" in ", o.precision);
  if (o.json)
    std::cout << Json{{"model", o.model},
                      {"other", o.other.empty() ? o.model : o.other},
                      {"precision", o.precision},
                      {"samples", errors.samples},
                      {"outputs", json_of(errors.outputs)},
                      {"values", json_of(errors.layers)}}
                     .dump(2, ' ', false, Json::error_handler_t::replace)
              << "\n";
  else
    print(errors, what);
  const bool enough =
      std::ranges::all_of(errors.outputs, [&](const LayerError& output) { return output.decibels >= o.least_snr; });
  return enough ? exit_good : exit_difference;
}

}  // namespace metac
