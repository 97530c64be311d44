// Choosing by measurement: what the analytic model has to choose from is compiled and timed on this machine.
//
// Candidates are tried for all contractions at once, one of each in a round, and each kernel's time decides for its
// contraction. Then the whole model is timed against the model's own choice, and what is no faster there is dropped.
#pragma once
#include <functional>
#include <string>

#include "compiler/session/session.h"
#include "compiler/target/choices.h"

namespace metac {

struct TuneOptions {
  SessionOptions session;  // of one CPU that runs here
  double seconds = 1;      // that the runs of a candidate take, and those that it is compared with
  std::function<void(const std::string& what, int round)> progress;
};

struct Tuning {
  std::string text;  // NAME.tune.json (schedule_file.h)
  size_t rounds = 0, offered = 0, taken = 0;
  double model_ms = 0, tuned_ms = 0;  // of one run
};

// Every input's shape must be known. Throws CompileError.
Tuning tune(const Model& model, const TuneOptions& options);

}  // namespace metac
