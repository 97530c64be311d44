// A model that was exported for training, put into the form of inference: BatchNormalization by its running statistics,
// Dropout off, in the bodies of If, Loop and Scan and in local functions too.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "compiler/ops/model.h"
#include "compiler/support/diagnostic.h"

namespace metac {

struct InferenceForm {
  Model model;
  std::vector<std::string> normalised, dropped;  // nodes that were in training form, as messages name them
  std::optional<Diagnostic> impossible;          // what stays in training form, and why
};

// Nodes that were in training form keep a mark (was_exported_for_training). A BatchNormalization whose mean and variance are
// computed has no running statistics: it is the same in training and in inference, and stays as it is.
InferenceForm inference_form(Model model);

// Of a node in inference form: did the file have it in training form? PyTorch's dynamo exporter writes such a
// BatchNormalization as one for inference, and says so in the node's metadata alone.
bool was_exported_for_training(const Node& node);

// What an operand is where that is known when compiling: a number, through Constant, Identity and Cast.
std::optional<double> known_number(const ModelGraph& graph, const std::string& name);

}  // namespace metac
