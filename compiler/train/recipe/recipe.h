// A recipe: how a model is trained, as a JSON document says it (docs/training.md is its reference). Reading checks
// everything that can be checked without the model; what names values or parameters of the model carries its place for later
// messages.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ops/model.h"
#include "runtime/train/train_tables.h"

namespace metac {

// Where in the recipe something stands: "recipe.json:3:14".
using Place = std::string;

struct Pattern {
  std::string glob;  // '*' any characters, '?' one
  Place place;
};
bool matches(std::string_view glob, std::string_view name);

// What becomes of parameters that an exporter merged or doubled: as the network had them; every name its own; as the file
// has them.
enum class Merged { restore, separate, tie };

enum class Reduction { mean, sum, batch_mean };
// What the network gives where a loss wants logarithms of probabilities.
enum class ScoreForm { logits, log_probabilities, probabilities };

struct LossRecipe {
  std::string kind;
  double weight = 1;                   // where there are several
  std::string output, target;          // empty: the model's first output, "target"
  ScoreForm form = ScoreForm::logits;  // cross_entropy, kl_divergence
  Reduction reduction = Reduction::mean;
  int64_t axis = 1;  // of the classes
  double label_smoothing = 0, beta = 1, margin = 1;
  std::optional<int64_t> ignore_index;
  std::vector<double> class_weights, positive_weight;
  bool log_target = false;                    // kl_divergence
  std::string target_lengths, input_lengths;  // ctc: fields of the samples; empty: up to the first negative label, all steps
  int64_t blank = 0, longest = 0;             // ctc: a class; labels of a sample at most, where no field says it
  bool time_first = false, zero_infinity = false;  // ctc
  std::string body;                                // expression: element by element over `operands`
  std::vector<std::string> operands;
  std::vector<Node> nodes;  // expression: nodes of the JSON IR
  std::string value;        // expression: which of their values is the loss, [batch, ...]
  Place place, output_place, axis_place;
};

struct MetricRecipe {
  std::string kind;  // accuracy, top_k, binary_accuracy, mae, mse, rmse, perplexity
  std::string name;  // as it is shown
  int64_t k = 1;
  Place place;
};

struct OptimiserRecipe {
  std::string kind;
  std::map<std::string, double> numbers;  // every option of the kind, given or not: "momentum", "beta1", ...
  bool is(std::string_view option) const { return numbers.at(std::string(option)) != 0; }
  double operator[](std::string_view option) const { return numbers.at(std::string(option)); }
};

// Deviations for the parameters that match; later groups come before earlier ones.
struct GroupRecipe {
  std::vector<Pattern> match;
  std::optional<double> weight_decay, rate_scale;
  std::optional<bool> frozen;
};

// Low-rank adapters of the weights that match; later ones come before earlier ones.
struct AdapterRecipe {
  std::vector<Pattern> match;
  int64_t rank = 8;
  double alpha = 8;  // what they add is times alpha / rank
  double dropout = 0;
  Place place;
};

struct ScheduleRecipe {
  train::ScheduleKind kind = train::ScheduleKind::constant;
  double final_rate = 0, initial_rate = 0, warmup = 0, period = 0, gamma = 0.1;
  bool in_epochs = true;
  std::vector<double> milestones;
};

struct FieldRecipe {
  std::string name, from;
  double scale = 1;
  std::vector<double> mean, deviation;
  bool channels_last = false, flip = false;
  int64_t crop_padding = 0;
  Place place;
};

struct DataRecipe {
  train::DataFormat format = train::DataFormat::npz;
  std::string train, validation;
  double validation_split = 0;
  bool shuffle = true, drop_last = true;
  std::vector<FieldRecipe> fields;
};

// A value of the samples that neither the model nor a loss describes.
struct DeclaredField {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  Place place;
};

// Instead of a loss and an optimiser: the training algorithm that the ONNX file has (TrainingInfoProto).
struct AlgorithmRecipe {
  std::string loss;  // the output that is the loss; empty: the first scalar one that is bound to no state
  std::map<std::string, train::Source> scalars;  // scalar inputs: learning_rate, step, call or seed
  Place place, scalars_place;
};

// Quantisation-aware training: where values and weights are rounded follows from the network, ranges from samples of the
// training data, as `metac quantize` has it.
struct QuantizationRecipe {
  int64_t weight_bits = 8;
  DType activations = DType::u8;
  bool per_tensor = false;        // one scale for all channels of a weight
  std::vector<std::string> keep;  // regular expressions for nodes that stay in float, by name or operator
  std::string calibration = "minmax";
  double percentile = 99.99;
  int64_t samples = 256;      // of the training data, to see ranges on
  bool learn_scales = false;  // else those of weights follow the largest magnitude and those of values stay
};

// A value that one step leaves for later ones.
struct KeptRecipe {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  double value = 0;  // of all elements, at first
};

// One of several steps that an update consists of: nodes, in which networks are called as operators of the domain "network",
// a loss, and whose parameters go down it.
struct StepRecipe {
  std::string name;
  ModelGraph graph;                 // its nodes and parameters
  std::string loss;                 // the value that is the loss: a float scalar
  std::vector<std::string> trains;  // networks
  OptimiserRecipe optimiser;
  int64_t every = 1;                        // it runs in every so-manieth update, the first one included
  std::map<std::string, std::string> keep;  // kept value -> value of the step that it becomes
  Place place, loss_place, trains_place, keep_place;
};

struct Recipe {
  std::string path;
  std::optional<AlgorithmRecipe> algorithm;
  int64_t batch = 32, epochs = 10, accumulate = 1, seed = 0;
  std::vector<LossRecipe> losses;
  std::vector<MetricRecipe> metrics;
  OptimiserRecipe optimiser;
  ScheduleRecipe schedule;
  DType storage = DType::f32;            // of the network's values and of the parameters as it reads them: bf16 and f16 too
  double loss_scale = 65536;             // float16: what the loss is multiplied by, at first
  double clip_norm = 0, clip_value = 0;  // 0: none
  double average_decay = 0;              // exponential moving average of the parameters; 0: none
  std::optional<int64_t> average_from;   // the plain mean of the parameters behind the updates from this one on, from 0
  std::vector<Pattern> train, freeze;    // train empty: every parameter of rank 1 or more
  std::vector<GroupRecipe> groups;
  std::vector<AdapterRecipe> adapters;
  std::optional<double> dropout;  // ratio of all Dropout nodes, instead of their own
  Merged merged = Merged::restore;
  std::optional<bool>
      batch_statistics;  // BatchNormalization normalises by the batch; false: it stays as in inference; else as exported
  bool unbiased_variance = true;         // its running variance divides by n - 1, as PyTorch's
  std::optional<double> batch_momentum;  // weight of the old running value, instead of the nodes' own
  std::vector<DeclaredField> fields;
  DataRecipe data;
  std::optional<QuantizationRecipe> quantization;
  // Of the training program.
  int64_t checkpoint_every = 0, checkpoints_kept = 2, log_every = 1, evaluate_every = 1, patience = 0;
  bool skip_non_finite = false;
  // Of a program of several networks and steps; without steps there are none of them.
  std::map<std::string, std::string> networks;  // files by name, beside the model itself, whose name is "model"
  std::vector<KeptRecipe> states;
  std::vector<StepRecipe> steps;
  std::string watch;  // the metric that patience and the best weights look at; empty: the loss
};

// Throws CompileError with file, line and column.
Recipe read_recipe(const std::string& path);
Recipe read_recipe(std::string_view text, const std::string& path);

}  // namespace metac
