// Which layers stay in float so that the outputs are close enough.
#pragma once
#include "compiler/quantize/measure/value_errors.h"
#include "compiler/quantize/write_qdq.h"

namespace metac {

struct SensitivitySearch {
  const Model& model;
  const std::map<std::string, KnownType>& types;
  const QdqData& found;
  const QdqOptions& options;
  const NodePatterns& keep;
  const std::vector<std::string>& outputs;
  const CalibrationData& data;
  const SessionOptions& session;
};

// Positions of the contractions that stay in float: of those ordered by what each alone, quantised, does to the outputs, the
// fewest worst ones with which every output reaches `decibels`. Compiles the model once for each contraction. Throws
// CompileError where the outputs are not that close even with all of them in float.
std::set<int> least_kept(const SensitivitySearch& search, ObservedModel& exact, double decibels);

}  // namespace metac
