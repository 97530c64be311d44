#include "compiler/quantize/quantize_for_training.h"

#include <algorithm>

#include "compiler/api/compile_training.h"
#include "compiler/quantize/quantize.h"
#include "compiler/support/diagnostic.h"
#include "compiler/train/sample_tables.h"
#include "runtime/train/data/open_dataset.h"
#include "runtime/train/data/read_sample.h"

namespace metac {
namespace {

// So many samples of the training data, by field, the batch first.
NamedTensors training_samples(const DataRecipe& data, const std::vector<TrainingField>& fields, const std::string& folder,
                              int64_t wanted) {
  DataRecipe training = data;
  training.validation.clear();
  const SampleTables own(training, fields);
  const train::TrainTables& tables = own.tables;
  const train::OpenedData opened = train::open_data(tables, folder, 0);
  const auto& all = opened.train.samples;
  const int64_t count = std::min(wanted, static_cast<int64_t>(all.size()));
  std::vector<int64_t> chosen;
  for (int64_t k = 0; k < count; ++k)
    chosen.push_back(all[static_cast<size_t>(k * static_cast<int64_t>(all.size()) / count)]);
  NamedTensors samples;
  train::SampleReader reader;
  for (size_t f = 0; f < fields.size(); ++f) {
    std::vector<int64_t> shape = {count};
    shape.insert(shape.end(), fields[f].shape.begin(), fields[f].shape.end());
    std::byte* bytes = nullptr;
    samples[fields[f].name] = make_tensor(fields[f].dtype, shape, &bytes);
    reader.read_all(opened.train.data->columns[f], tables.data.fields[f], tables.fields[f], chosen, {},
                    reinterpret_cast<char*>(bytes));
  }
  return samples;
}

// The recipe for the float32 network, which has no scales that a pattern could name. Patterns that match nothing in the
// quantised network are told there.
Recipe unquantized_recipe(const Recipe& recipe, const Model& model) {
  Recipe plain = recipe;
  plain.quantization.reset();
  const auto drop_unmatched = [&](std::vector<Pattern>& patterns) {
    std::erase_if(patterns, [&](const Pattern& p) {
      const auto& all = model.graph.initializers;
      return std::none_of(all.begin(), all.end(), [&](const Initializer& i) { return matches(p.glob, i.name); });
    });
  };
  drop_unmatched(plain.train);
  drop_unmatched(plain.freeze);
  for (GroupRecipe& group : plain.groups) drop_unmatched(group.match);
  std::erase_if(plain.groups, [](const GroupRecipe& group) { return group.match.empty(); });
  return plain;
}

}  // namespace

QuantizedNetwork quantize_for_training(const Model& model, const Recipe& recipe, const std::string& folder,
                                       const SessionOptions& session) {
  const QuantizationRecipe& q = *recipe.quantization;
  refuse_quantized(model);
  const TrainingModel unquantized = training_model(model, unquantized_recipe(recipe, model), session.lower);
  QuantizeOptions options;
  options.session = session;
  options.keep = q.keep;
  options.calibration = *calibration_named(q.calibration);
  options.percentile = q.percentile;
  options.activations = q.activations;
  options.per_tensor = q.per_tensor;
  options.weight_bits = static_cast<int>(q.weight_bits);
  options.samples_origin = folder + "/" + recipe.data.train;
  try {
    options.samples = training_samples(recipe.data, unquantized.fields, folder, q.samples);
  } catch (const train::Fault& fault) {
    throw CompileError({recipe.path, "",
                        concat("\"quantization\" sees ranges on the training data: ", fault.what(),
                               "; --data says where the recipe's paths begin")});
  }
  Model network = unquantized.network;
  network.path = model.path;
  QuantizedNetwork quantized = quantize_to_train(std::move(network), options);
  quantized.integers.sha256 = model.sha256;  // what a library says that it was made from
  return quantized;
}

}  // namespace metac
