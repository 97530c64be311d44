// The ahead-of-time project: a compiled model as a folder of sources that any stock compiler builds. What stands where is
// docs/generated_code.md's subject. The same model, weights and options give byte-identical files.
#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/machine/cpu_target.h"
#include "compiler/ops/decoder_ports.h"
#include "compiler/program/program.h"
#include "compiler/target/project_parts.h"

namespace metac {

// A node of the model, for comments and the manifest; untrusted text.
struct NodeLabel {
  std::string name, op_type;
};

// One of the programs of a library: what one function of it does on one CPU, for all shapes or for some.
struct LibraryProgram {
  const CompiledModel* model = nullptr;
  const std::byte* weights = nullptr;  // the weights block as run_prepare lays it out, run.weight_bytes bytes
  CpuTarget cpu;
  std::string function = "run";  // then "vjp", "jvp" and "hvp", or nothing
  int specialisation = 0;        // 0: for all shapes; else one of those for certain dims (--dim batch=1,8), counted from 1
  std::map<std::string, int64_t> dims;  // that it is for
};

struct CarriedModel;  // carried_model.h

struct ProjectOptions {
  std::string name;    // of the library and the prefix of its functions; a C identifier
  CpuTarget cpu;       // of write_project's only program; with a GPU too: the host's part
  ProjectParts parts;  // of the target
  bool embed_weights = false;
  const CarriedModel* carried = nullptr;        // --jit: what the library opens sessions on; must outlive the Project
  const DecoderPorts* decoder = nullptr;        // --generate: the library continues texts
  std::string tokenizer;                        // its table (frontends/tokenizer); empty: tokens alone
  std::string package_version = "1.0.0";        // of the Python module, and of what else is made to be installed
  std::string model_hash;                       // SHA-256 of the model's file
  std::vector<NodeLabel> nodes;                 // by node index
  std::string value_kinds;                      // what derivatives are by, for people: "inputs and parameters"
  std::map<std::string, std::string> recorded;  // options for the manifest: "shape x" -> "1x3x224x224"
};

// A program beside the library: bin/<project>_<name>.
struct ProjectProgram {
  std::string name;                  // "run", "generate"
  std::vector<std::string> sources;  // the last: the same text for all models
};

struct Project {
  std::string name;
  std::map<std::string, std::string> files;  // relative path -> content; all text
  // What these files are in a prefix that several models share, with headers in include/NAME: NAME.pc, name-config.cmake.
  std::map<std::string, std::string> shared_prefix;
  std::string weights_header;             // NAME.weights is this header and then the weights block,
  std::vector<std::string_view> weights;  // whose pieces are the programs'
  std::vector<std::string> sources;       // what the library is compiled from, kernels first
  std::vector<ProjectProgram> programs;
  std::map<std::string, CpuTarget> kernel_cpus;  // of each kernel source: what it is compiled for
  FindToolkit find_toolkit;                      // of the device that kernels are for; empty: the host's processors
  KernelFiles kernel_files;                      // of the library's runs
  std::vector<std::string> libraries;            // of the vendor that they call: "cublasLt", "cudnn"
  bool embed_weights = false;
};

// All programs of a library: for every CPU, for every specialisation, "run" and, with derivatives, "vjp", "jvp", "hvp"; the
// CPU to be preferred first, and of a CPU's programs those for all shapes. They share one list of parameters and one weights
// file. Models and weights must outlive the Project.
Project write_project(const std::vector<LibraryProgram>& programs, const ProjectOptions& options);
// The library of one program, for options.cpu.
Project write_project(const CompiledModel& model, const std::byte* weights, const ProjectOptions& options);

}  // namespace metac
