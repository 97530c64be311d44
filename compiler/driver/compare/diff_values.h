// metac diff --data: how far a model's values lie from those of float32, and at which nodes they leave them.
#pragma once
#include "compiler/driver/options/model_options.h"

namespace metac {

struct DiffValuesOptions : ModelOptions {  // precision, keep: of the other model
  std::string other;                       // empty: the same file
  std::vector<std::string> data;
  int64_t batch = 8, samples = 0;
  double least_snr = 0;  // of each output; 0: none is asked for
  bool json = false;
};

void add_diff_values_options(CLI::App& command, DiffValuesOptions& options);
// The exit status: 3 where an output has less than `least_snr`. Throws UsageError or CompileError.
int diff_values(const DiffValuesOptions& options);

}  // namespace metac
