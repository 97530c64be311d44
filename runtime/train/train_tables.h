// What a training program is made of, as plain tables: the one interface between the compiler (which writes them into
// train_tables.cpp) and the trainer (runtime/train, the same text in every project). Data only; nothing here owns memory.
//
// One update is one call of the `step` library (with accumulation: `accumulate` calls). It is a pure function: it reads the
// states, a batch and a few scalars, and writes the loss, the metrics and the next states into other buffers, which the
// trainer then swaps. So a step that went wrong has changed nothing.
#pragma once
#include "../program.h"

namespace metac::train {

using METAC_RUNTIME_NAMESPACE::ScalarType;

constexpr int32_t most_dims = 8;

// What the trainer feeds an input with, or what an output is. Scalars have rank 0.
enum class Source : int32_t {
  data,           // in: field `index` of a batch, [batch, dims of the field]
  learning_rate,  // in: f32 or f64, the schedule's value for this update
  step,           // in: i64, updates done so far: 0 in the first update (Adam's t is step + 1)
  call,           // in: i64, calls of `step` so far: another number in every call, for random numbers (Dropout)
  seed,           // in: i64, --seed
  apply,          // in: boolean, whether this call ends an accumulation and updates the parameters; always true without one
  state,          // in: state `index`. out (step only): its next value
  loss,           // out. step: scalar, the mean over the batch. evaluate: [batch], one value a sample
  metric,         // out: metric `index`. step: scalar. evaluate: [batch], one value a sample
};

// An input or output of a library. Every shape is static.
struct Port {
  const char* name;
  ScalarType dtype;
  int32_t rank;
  int64_t dims[most_dims];
  Source source;
  int32_t index;
  bool overwrites = false;  // an output, a state's next value: the call may be given the state's memory for it
};

// Who averages a step's gradients with other processes while it runs (Exchanger of executor/executor.h): by begin and wait,
// on a GPU by average. Not 0: the run fails.
struct ExchangedValue {
  void* data;
  ScalarType dtype;
  int64_t bytes;
};
struct Exchanger {
  void* user;
  int32_t (*begin)(void* user, int32_t index, void* data, ScalarType dtype, int64_t bytes);
  int32_t (*wait)(void* user, int32_t index);
  int32_t (*average)(void* user, const ExchangedValue* values, int32_t count, void* stream);
};

// The C interface of a generated library, through METAC_TRAIN_LIBRARY of library_calls.h. Status 0 is good.
struct Library {
  const char* name;
  int32_t (*create)(int32_t threads,
                    void** context);  // threads 0: one per CPU. On failure *context has the reason, if there is one
  int32_t (*run)(void* context, void* const* inputs, void* const* outputs);  // in the order of the ports
  void (*destroy)(void* context);
  const char* (*last_error)(const void* context);
  // Runs again and looks at what every kernel wrote: sets `report` to the first one that made NaN or Inf out of finite
  // values, "" if none did. May be null.
  int32_t (*find_non_finite)(void* context, void* const* inputs, void* const* outputs, char* report, int64_t report_bytes);
  // From now on the time of each kernel is measured; a row by number, its name or null beyond the last; what it did
  // (operations of sums of products, bytes read and written, -1: not known). All may be null.
  int32_t (*profile)(void* context, int32_t enable);
  const char* (*profile_row)(const void* context, int32_t index, int64_t* runs, int64_t* nanoseconds);
  int32_t (*profile_work)(const void* context, int32_t index, double* operations, double* bytes);
  const Port* inputs;
  int32_t input_count;
  const Port* outputs;
  int32_t output_count;
  int32_t (*exchange)(void* context, const Exchanger* exchanger) =
      nullptr;  // from the next run on; null: the step has no gradients to exchange
};

enum class StateRole : int32_t {
  parameter,  // trained
  frozen,     // a parameter that stays as it is (it is read, there is no next value)
  optimiser,  // momenta, accumulated gradients: nothing of it is in the final network
  average,    // exponential moving average of state `partner`: what evaluation and export take in its place
  statistic,  // running mean and variance of a normalisation: trained by running, part of the network
  counter,    // a number that a step counts on
  kept,       // a value that one step leaves for later ones
};

// A value that outlives a step. States without a next value among the step's outputs keep theirs.
struct State {
  const char* name;  // parameters and statistics: the model's name. Else unique: "weight/momentum"
  ScalarType dtype;
  int32_t rank;
  int64_t dims[most_dims];
  StateRole role;
  int32_t partner;      // average: the state that it averages; else -1
  int64_t offset;       // in initial.bin: its value before the first update
  int64_t onnx_offset;  // where its raw_data begins in the template of the trained ONNX file, -1: not in it
};

// One value a sample has, without the batch dimension.
struct Field {
  const char* name;
  ScalarType dtype;
  int32_t rank;
  int64_t dims[most_dims];
};

enum class Aggregate : int32_t {
  mean,
  root_of_mean,
  exp_of_mean
};  // of the values of all samples: accuracy; RMSE; perplexity
struct Metric {
  const char* name;
  Aggregate aggregate;
  bool greater_is_better;
};

// ---- data ----
enum class DataFormat : int32_t { npy, npz, idx, cifar10, cifar100, csv, images };

// Where a field comes from, and what happens to it: (value * scale - mean[c]) / deviation[c], c along the field's first
// axis.
struct FieldSource {
  const char*
      from;  // npy, idx: end of the file's path. npz: the entry. csv: columns by name or number: "label", "1-64", "a,b", "*"
             // for all that no other field names. cifar: "image", "label" (100: "fine", "coarse"). images: "image", "class"
  double scale;        // 1: none
  const double* mean;  // `channels` values
  const double* deviation;
  int32_t channels;      // 0: no normalisation
  bool channels_last;    // the file has [height, width, channels], the field [channels, height, width]
  bool flip;             // augmentation, training only: mirror the last axis of every other sample
  int32_t crop_padding;  // augmentation, training only: pad the last two axes by so many zeros (before normalising), cut at
                         // random; 0: none
};

struct DataSpec {
  DataFormat format;
  const char*
      train;  // a path below --data (a folder, a file or how the files' names begin), by format: docs/training_program.md
  const char* validation;   // the same for validation; nullptr: none
  double validation_split;  // share of `train` set aside where there is no `validation`: [0, 1)
  bool shuffle;
  bool drop_last;             // leave out a last batch that is not full; else it is filled up from the start of the epoch
  const FieldSource* fields;  // one for each of TrainTables::fields
};

// ---- how to train ----
enum class ScheduleKind : int32_t { constant, step, cosine, one_cycle };
struct Schedule {
  ScheduleKind kind;
  double rate;          // the greatest
  double final_rate;    // cosine: at the end. one_cycle: at the end
  double initial_rate;  // warm-up: at its start. one_cycle: at the start
  double warmup;        // length of a linear warm-up before the rest, in `unit`s. one_cycle: share of all updates that rise
  bool in_epochs;       // lengths count epochs, else updates
  double period;        // step: every so many the rate is multiplied by gamma; 0: at the milestones instead
  double gamma;
  const double* milestones;  // step
  int32_t milestone_count;
};

enum class NonFinite : int32_t { stop, skip };  // skip: the update is left out and counted; more than 10 in a row stop

// Defaults of the program; options of the command line come before them.
struct Settings {
  int64_t epochs;
  int64_t batch;       // fixed when compiling: samples of one call
  int64_t accumulate;  // calls of one update, 1 or more
  int64_t seed;
  int64_t checkpoint_every;  // updates; 0: at the end of every epoch
  int32_t checkpoints_kept;  // at least 1
  int64_t log_every;         // updates
  int64_t evaluate_every;    // epochs
  NonFinite non_finite;
  int32_t patience;    // epochs without a better result after which training ends; 0: never
  int32_t watched;     // index of the metric that patience and the best weights look at; -1: the loss
  int64_t step_bytes;  // that a step takes: working memory, batch, states, and next states where those do not overwrite them
  int64_t memory_budget;   // that it was compiled for; 0: none
  int64_t recomputed;      // values that a step makes a second time to keep within it
  bool evaluates_batches;  // the evaluation's loss is that of a whole batch, at every sample: a batch that is not full is
                           // left out
};

// States that take more in all are kept once where that can be, and overwritten by their next values; others twice, so that
// a step that goes wrong has changed nothing.
constexpr int64_t most_bytes_kept_twice = int64_t{64} << 20;

// ---- what comes out ----
// The inference library, to write its weights file: parameter k of it is a state, or bytes of initial.bin where none belongs
// to it.
struct ExportParameter {
  int32_t state;   // -1: not trained
  int64_t offset;  // in initial.bin
  int64_t bytes;
};
struct Inference {
  int32_t (*create)(void** context);
  int32_t (*write_weights)(void* context, const void* const* parameters, int32_t count, const char* path);
  void (*destroy)(void* context);
  const char* (*last_error)(const void* context);
  const char* weights_file;  // "net.weights"
  const ExportParameter* parameters;
  int32_t parameter_count;
};

// Where states live, if not in memory of the host: memory that host and libraries read and write (of a GPU:
// runtime/cuda/state_memory.h).
struct StateValue {
  ScalarType dtype;
  const void* data;
  int64_t count;  // elements
};
struct StateMemory {
  void* (*take)(int64_t bytes);  // null: none; `reason` says why
  void (*give)(void* data);
  // The first value with an element that is NaN or infinite, and the first such element; -1: none. False: it could not be
  // looked for.
  bool (*find_non_finite)(const StateValue* values, int32_t count, int32_t* value, int64_t* element);
  const char* (*reason)();         // of the last failure
  bool (*choose)(int32_t device);  // of this process from now on, before anything is taken. False: `reason`
};

// A step behind the first one of an update. Its loss is a metric; the last output that is one.
struct FurtherStep {
  Library library;
  int64_t every;  // it runs in every so-manieth update, the first one included
};

// Low-rank matrices that train beside a weight of a layer, and go into a file of their own: alpha / rank * A B is added to
// it.
struct Adapter {
  const char* layer;
  int32_t a, b;  // states: A [depth, rank] and B [rank, columns]
  double alpha;
};

struct TrainTables {
  const char* name;     // "net"
  const char* version;  // "metac 0.1.0"
  const char* program;  // 64 hexadecimal digits: which step, states and data a checkpoint belongs to
  const char* loss;     // what the loss is, for people: "cross-entropy"
  const char* optimiser;
  const Field* fields;
  int32_t field_count;
  const State* states;
  int32_t state_count;
  const Metric* metrics;
  int32_t metric_count;
  Library step;
  Library evaluate;  // run null: no evaluation
  Settings settings;
  Schedule schedule;
  DataSpec data;
  const char* files;         // folder of initial.bin and the template, from the folder of the program: "../train"
  const char* initial_file;  // "initial.bin"
  int64_t initial_bytes;
  uint32_t initial_crc;                 // crc32.h
  const char* onnx_template;            // nullptr: none
  Inference inference;                  // create null: none
  const StateMemory* memory = nullptr;  // null: states live in memory of the host
  const FurtherStep* further = nullptr;
  int32_t further_count = 0;  // run behind `step`, in order, with its batch; each sees the states that those before it left
  const char* alone = nullptr;  // why several processes cannot train it together; null: they can
  bool exchanges_sums = false;  // gradients are added up instead of averaged
  const Adapter* adapters = nullptr;
  int32_t adapter_count = 0;
};

}  // namespace metac::train
