// A folder that `metac compile` wrote, as what runs and compares such folders sees it: its manifest and its program.
#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "compiler/ops/model.h"

namespace metac {

// The name under which a folder was compiled, from its manifest. Throws CompileError where the folder is none of ours, or
// its manifest of a format that this metac does not know.
std::string name_in_manifest(const std::string& folder);
nlohmann::json read_manifest(const std::string& folder, const std::string& name);

class CompiledFolder {
 public:
  explicit CompiledFolder(const std::string& folder);  // throws CompileError

  // The library's inputs and outputs, as a model without nodes.
  const Model& ports() const { return ports_; }
  // Through the program bin/<name>_run: all inputs by name, the outputs in the model's order. Throws CompileError.
  std::vector<std::pair<std::string, Tensor>> run(const std::map<std::string, Tensor>& inputs) const;

 private:
  std::string folder_, name_;
  Model ports_;
};

}  // namespace metac
