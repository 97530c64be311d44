// The training information of an ONNX file, which the Model AST does not hold: how to begin and how to go on, as two graphs.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ops/model.h"

namespace metac {

struct TrainingInfo {
  ModelGraph initialization, algorithm;  // the algorithm may read all values of the model's graph
  std::vector<std::pair<std::string, std::string>> initialization_bindings, update_bindings;  // initialiser, output
};

// Of a file's bytes; `path` serves messages, external data is looked for in its folder. Throws CompileError.
std::vector<TrainingInfo> read_training_info(std::string_view onnx, const std::string& path);

// The same bytes with one more.
std::string add_training_info(std::string_view onnx, const TrainingInfo& info);

}  // namespace metac
