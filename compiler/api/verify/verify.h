// Test cases as ONNX's backend tests have them: a folder with model.onnx and test_data_set_*/{input,output}_*.pb.
#pragma once
#include <string>
#include <vector>

#include "compiler/session/session.h"
#include "compiler/api/verify/compare.h"

namespace metac {

enum class CaseStatus { passed, failed, skipped };  // skipped: refused by name before running
std::string_view name_of(CaseStatus status);

// An output against the expected one, by verify_against.
struct OutputResult {
  std::string name, type;  // "float32 1x1000"
  Comparison comparison;
  Tolerance tolerance;  // as it was applied
  double part = 0;      // > 0: atol is this part of the output's largest magnitude
};

struct CaseResult {
  std::string path;
  CaseStatus status = CaseStatus::failed;
  std::string detail;     // one line: why it failed or was skipped
  std::string op, dtype;  // of a model of one node and of its first tensor ("Conv", "float32"); else "several"
  int64_t max_ulp = 0;
  double max_rel = 0;
  std::vector<OutputResult> outputs;  // of verify_against
  std::vector<std::string> notes;     // of verify_against: what was not compared
};

struct VerifyOptions {
  SessionOptions session;
  Tolerance tolerance;
  bool scale_atol = false;  // verify_against: atol is part_of_largest() of each output's largest magnitude at least
  bool aot = false;         // on a compiled library instead of the JIT
  int gradient_order = 0;   // > 0: derivatives up to this order are checked (verify_gradient.h) instead of the outputs
  double seconds = 600;     // for the compiler of one library
  std::string compiler;     // of libraries; empty: LibraryOptions has the default
};

// Does the folder hold a case?
bool is_case(const std::string& folder);
// All case folders at or below `root`, sorted. Symbolic links are not followed.
std::vector<std::string> find_cases(const std::string& root);
// Never throws CompileError: what goes wrong is the case's result. With gradient_order `folder` may be a model file too.
CaseResult verify_case(const std::string& folder, const VerifyOptions& options);

// The model's outputs for the inputs in a .npz file against the outputs in the same file, both by name. `model` is a model's
// file or a folder that `metac compile` wrote, whose program then answers (verify_against.cpp).
CaseResult verify_against(const std::string& model, const std::string& npz, const VerifyOptions& options);
// Operators whose sums cancel ask for more than the default (OpSchema::atol).
Tolerance tolerance_for(const Model& model, Tolerance tolerance);

}  // namespace metac
