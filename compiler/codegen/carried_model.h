// The model that a library made with --jit carries: what it puts into the weights file, and the table that says where
// (runtime/specialise/carried_model.h). docs/decisions/specialised_libraries.md tells why it lies there.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "compiler/codegen/library_weights.h"
#include "compiler/codegen/project.h"
#include "compiler/ops/model.h"

namespace metac {

struct CarriedModel {
  std::string graph;  // an ONNX file's bytes, its initialisers in `weights` without elements
  std::vector<Initializer> weights;
  std::map<std::string, Symbol> dims;  // ranges of open dims, by their names in the graph
};

// Where it lies in the file's block: from `from` to that block's end, but for weights that programs read as they are.
struct CarriedPlaces {
  struct Weight {
    int parameter = -1;  // of the library
    int64_t offset = 0;
  };
  std::vector<Weight> weights;  // of CarriedModel::weights
  int64_t graph = 0, from = 0;
};

// Adds it to the end of the file's block, whose pieces are views of `carried`.
CarriedPlaces place_carried(const CarriedModel& carried, const std::vector<LibraryProgram>& programs,
                            LibraryWeights& weights);

// Definition of `carried_model`.
std::string carried_text(const CarriedModel& carried, const CarriedPlaces& places,
                         const std::vector<LibraryProgram>& programs, const LibraryWeights& weights);

}  // namespace metac
