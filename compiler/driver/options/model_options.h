// The options that every command working on a model shares.
#pragma once
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "compiler/session/session.h"

namespace metac {

struct ModelOptions {
  std::string model;
  std::vector<std::string> shapes, dims, ops;
  std::vector<std::string> keep;
  std::string cpu = "native", precision = "float32", fusion = "best", max_tensor_bytes;
  int winograd = 4;
  int threads = 0;
  bool allow_code = false;

  // Throws UsageError or CompileError.
  LowerOptions lower() const;
  LowerOptions lower(
      std::map<std::string, std::vector<int64_t>>* lists) const;  // --dim NAME=1,8,32 into `lists`; null: refused
  std::vector<CpuTarget> cpus() const;                            // of the list that --cpu is
  CompileOptions compile_for(const CpuTarget& cpu) const;
  CompileOptions compile() const;  // where --cpu names one
  SessionOptions session() const;
  void note_kept(const Model& model) const;  // warns of a --keep that names no node
  // Throws UsageError where --precision has no meaning: int8 in training, and targets that follow the model.
  void check_precision(bool trains, const Target& target) const;
};

void add_model_argument(CLI::App& command, ModelOptions& options, const char* help = "an ONNX file or a JSON IR document");
void add_shape_options(CLI::App& command, ModelOptions& options);
void add_compile_options(CLI::App& command, ModelOptions& options);          // cpu, fusion, budgets
void add_precision_options(CLI::App& command, ModelOptions& options);
void add_input_option(CLI::App& command, std::vector<std::string>& inputs);  // for gather_inputs()
// --ops: operators for the models that the command reads. The files are read while arguments are: before any model.
void add_ops_option(CLI::App& command, ModelOptions& options);
void add_threads_option(CLI::App& command, ModelOptions& options);
// --target, the name of one of targets(); the first is the default.
void add_target_option(CLI::App& command, std::string& target, const std::string& help);

}  // namespace metac
