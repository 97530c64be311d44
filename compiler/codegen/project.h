// The ahead-of-time project: a compiled model as a folder of sources that any stock compiler builds. What stands where is
// docs/generated_code.md's subject. The same model, weights and options give byte-identical files.
#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "compiler/kernel/program.h"
#include "compiler/kernel/target.h"

namespace metac {

// A node of the model, for comments and the manifest; untrusted text.
struct NodeLabel {
  std::string name, op_type;
};

struct ProjectOptions {
  std::string name;                   // of the library and the prefix of its functions; a C identifier
  Target target = Target::cpu;
  CpuTarget cpu;                      // with a GPU too: the host's part
  CudaTarget cuda;
  bool embed_weights = false;
  std::string model_hash;             // SHA-256 of the model's file
  std::vector<NodeLabel> nodes;       // by node index
  std::map<std::string, std::string> recorded;  // options for the manifest: "shape x" -> "1x3x224x224"
};

struct Project {
  std::string name;
  std::map<std::string, std::string> files;  // relative path -> content; all text
  std::string weights_header;                // NAME.weights is this header and then the weights block
  const std::byte* weights = nullptr;        // run.weight_bytes bytes, not owned
  size_t weight_bytes = 0;
  std::vector<std::string> sources;          // what the library is compiled from, kernels first
  std::vector<std::string> cpu_flags;        // of kernel sources
  std::vector<std::string> cuda_flags;       // of .cu sources, and that there are any: what machine code nvcc makes
  bool embed_weights = false;
};

// Throws CompileError where `name` is no usable identifier (empty, odd characters, a C++ keyword, a name that would
// collide with the runtime's).
void check_project_name(const std::string& name);
// "Model v2.onnx" -> "model_v2": a usable name out of a file's name.
std::string project_name_for(const std::string& file_name);

// `weights`: the weights block as run_prepare lays it out (run.weight_bytes bytes); must outlive the Project.
Project write_project(const CompiledModel& model, const std::byte* weights, const ProjectOptions& options);

}  // namespace metac
