// A model and a recipe to a folder that holds the inference library and a training program: what `metac compile --train`
// does.
//
//   DIR/                 as compile_library makes it
//   DIR/bin/NAME_train   the program
//   DIR/train/step, DIR/train/evaluate    libraries of a step and of an evaluation
//   DIR/train/src        the program's main function, its tables, the trainer's headers
//   DIR/train/initial.bin, NAME.onnx      what states begin with; the file in which trained values are put
#pragma once
#include <string>
#include <vector>

#include "compiler/api/compile_library.h"
#include "compiler/train/training_model.h"

namespace metac {

struct TrainingReport {
  LibraryReport inference, step, evaluate;
  std::vector<LibraryReport> further;  // steps behind the first one
  int64_t state_bytes = 0;
  std::vector<std::string> notes;
  double build_seconds = 0;  // of the program alone
};

// The models of a step and an evaluation: by the recipe's loss and optimiser, or by the algorithm that the model's file has.
// `quantized`: what became of the model where the recipe has "quantization" (compiler/quantize/quantize_for_training.h).
TrainingModel training_model(const Model& model, const Recipe& recipe, const LowerOptions& lower,
                             const QuantizedNetwork* quantized = nullptr);

// Throws CompileError naming the model's file or the recipe's line. The folder appears whole or not at all.
TrainingReport compile_training(const Model& model, const Recipe& recipe, const std::string& folder,
                                const LibraryOptions& options, const QuantizedNetwork* quantized = nullptr);

}  // namespace metac
