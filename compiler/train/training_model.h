// A model and a recipe as two models: one step of training, and an evaluation. Both are ordinary models that the ordinary
// pipeline compiles; nothing outside them knows what a loss, a derivative or an optimiser is.
//
//   step       inputs   the fields of a batch, scalars (learning rate, step, ...), all states
//              outputs  the loss [], the metrics [], the next value of every state that has one
//   evaluate   inputs   the fields of a batch, the states that the network reads
//              outputs  the loss and the metrics of every sample, [batch] each
//
// Parameters (the model's float initialisers) are states and therefore inputs; those that are not trained stay initialisers.
#pragma once
#include <string>
#include <vector>

#include "compiler/ops/lower_model.h"
#include "compiler/ops/model.h"
#include "compiler/train/quantized_network.h"
#include "compiler/train/recipe/recipe.h"

namespace metac {

struct TrainingState {
  std::string name;  // parameters and statistics: the model's; else unique: "weight/momentum"
  Tensor initial;    // its value before the first update
  train::StateRole role = train::StateRole::parameter;
  int partner = -1;      // average: the state that it averages
  int initializer = -1;  // parameter, frozen, statistic: which of the model's it is; -1: none
};

// What stands at a position among the inputs or outputs of a model.
struct TrainingPort {
  train::Source source = train::Source::data;
  int index = 0;  // of the field, state or metric
};

struct TrainingField {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;  // of one sample
};

struct TrainingMetric {
  std::string name;
  train::Aggregate aggregate = train::Aggregate::mean;
  bool greater_is_better = false;
};

// Low-rank matrices that train beside a weight: alpha / rank * A B is added to it. A [depth, rank] and B [rank, columns] are
// parameters of the network.
struct TrainedAdapter {
  std::string layer;  // "layers.0.q_proj", of the weight "layers.0.q_proj.weight"
  std::string a, b;
  double alpha = 1;
};

// A step behind the first one of an update, where there are several. Its loss is a metric.
struct FurtherStep {
  std::string name;
  Model model;
  std::vector<TrainingPort> inputs, outputs;
  int64_t every = 1;  // it runs in every so-manieth update, the first one included
};

struct TrainingModel {
  Model network;  // as it is compiled for inference and written when trained: states name its initialisers
  Model step, evaluate;
  std::vector<FurtherStep> further;
  std::vector<TrainingPort> step_inputs, step_outputs, evaluate_inputs, evaluate_outputs;
  std::vector<TrainingField> fields;
  std::vector<TrainingState> states;
  std::vector<TrainingMetric> metrics;
  std::vector<TrainedAdapter> adapters;
  DType loss_dtype = DType::f32;  // of the loss outputs
  std::string loss, optimiser;    // for people
  bool has_evaluation = true;
  std::string alone;  // why several processes cannot train it together; empty: they can
  bool exchanges_sums =
      false;  // gradients of several processes are added up, not averaged: the loss is a sum over the batch
  bool evaluates_batches =
      false;  // its loss is that of a whole batch, at every sample: an algorithm of the model's own says no more
  std::vector<std::string> notes;  // what was put back into training form, and what could not be
};

// `lower`: the shapes and dims that the command line fixes; the batch is the recipe's. Throws CompileError that names the
// recipe's line or the model's file. `quantized`: `model` is its trained form, and the integers of its other form are states
// too, which name no initialiser of `model`.
TrainingModel build_training_model(const Model& model, const Recipe& recipe, const LowerOptions& lower,
                                   const QuantizedNetwork* quantized = nullptr);

}  // namespace metac
