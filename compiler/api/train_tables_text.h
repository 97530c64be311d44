// train_tables.cpp of a training program: what runtime/train/train_tables.h declares, as C++ text.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/api/compile_library.h"
#include "compiler/train/training_model.h"

namespace metac {

// What a compiled library of the program says of itself.
struct TrainingPart {
  bool exchanges = false;        // it exchanges gradients
  std::vector<bool> overwrites;  // by output: it may take the place of the state that it is the next value of
};

// Where things went that the tables speak of.
struct TrainingFiles {
  std::string name;                   // of the inference library
  std::string program;                // 64 hexadecimal digits
  std::vector<int64_t> offsets;       // by state, in initial.bin
  std::vector<int64_t> onnx_offsets;  // by state, in the template; -1
  struct Export {
    int state;
    int64_t offset, bytes;
  };
  std::vector<Export> parameters;  // of the inference library, in its order
  int64_t initial_bytes = 0;
  uint32_t initial_crc = 0;
  bool has_template = true;
  std::map<std::string, TrainingPart> parts;                  // "step", "step2", ..., "evaluate"
  std::string exchange, memory;                               // of the target (ProjectParts)
  int64_t step_bytes = 0, memory_budget = 0, recomputed = 0;  // as in train::Settings
};

// The library of a step behind the first one, counted from 0: "step2", "step3", ...
std::string further_name(size_t index);

// Throws CompileError at the recipe's place where its data does not fit the fields.
std::string train_tables_text(const TrainingModel& model, const Recipe& recipe, const TrainingFiles& files);

}  // namespace metac
