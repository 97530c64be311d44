// The training algorithm that an ONNX file has of its own (TrainingInfoProto) as the model of a step: the network's nodes
// and the algorithm's in one graph, the bound initialisers as states.
#pragma once
#include <functional>
#include <map>

#include "compiler/train/training_model.h"
#include "frontends/onnx/training_info.h"

namespace metac {

// Runs a model without inputs; its outputs by name. For the initialisation.
using RunOnce = std::function<std::map<std::string, Tensor>(const Model&)>;

// recipe.algorithm is there. Throws CompileError where the bindings do not fit.
TrainingModel training_model_of_algorithm(const Model& model, const TrainingInfo& info, const Recipe& recipe,
                                          const LowerOptions& lower, const RunOnce& run);

}  // namespace metac
