// A model compiled to a generated library in a temporary folder and called through its own run program: what `verify
// --aot` looks at.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/session/session.h"

namespace metac {

class TemporaryGuard;

class Library {
 public:
  // Compiles for these inputs, relying on their shapes or as much as options.most_known says. Throws CompileError.
  Library(const std::string& model_path, const std::map<std::string, Tensor>& inputs, const SessionOptions& options,
          double seconds, const std::string& compiler = "");
  ~Library();
  bool draws() const { return draws_; }  // random numbers
  std::vector<std::pair<std::string, Tensor>> run(const std::map<std::string, Tensor>& inputs);

 private:
  std::string folder_;
  bool draws_ = false;
  std::unique_ptr<TemporaryGuard> guard_;
  std::vector<std::string> input_names_, output_names_;
  std::vector<DType> output_dtypes_;
};

// The answers of the program bin/<name>_run in a folder that was compiled and built before: inputs and outputs in the
// model's order. Throws CompileError.
std::vector<Tensor> run_built_program(const std::string& folder, const std::string& name, const std::vector<Tensor>& inputs,
                                      const std::vector<DType>& outputs);

}  // namespace metac
