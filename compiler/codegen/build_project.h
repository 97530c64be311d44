// A Project as a folder on disk, built. The folder appears whole, or not at all.
//
// Kernels are compiled by the compiler that the JIT uses (docs/decisions/library_kernels.md), the interface and the tables
// by the system's C++ compiler, which links too. It is driven directly: cmake's checks of the compiler alone take longer
// than building a small model. The generated CMakeLists.txt builds everything with cmake (tests/project builds both ways).
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "compiler/codegen/project.h"

namespace metac {

// How a program that was run ended.
struct ToolResult {
  int status = 0;  // exit status; -1 where it did not exit by itself
  int signal = 0;
  bool timed_out = false;
  std::string output;  // of both its outputs
};

// What building needs from outside this layer.
struct BuildTools {
  // Runs argv[0] in a folder, no shell. Called from several threads at once.
  std::function<ToolResult(const std::vector<std::string>& argv, const std::string& folder, double seconds)> run;
  std::function<std::string(const std::string& program)> find;  // on PATH; "" where there is none
  // The object file of a kernel source for a CPU, made without a program of the system; from several threads at once. May be
  // empty: then the C++ compiler compiles the kernels too. `kernel_compiler` is all that decides its result but the source.
  std::function<std::string(const std::string& text, const CpuTarget& cpu)> compile_kernels;
  std::function<std::string(const CpuTarget& cpu)> kernel_compiler;
  // An object file by the hash of all that decides it, kept between builds; both may be empty.
  std::function<std::string(const std::string& key)> cached;  // "" where there is none
  std::function<void(const std::string& key, const std::string& object)> keep;
};

struct BuildOptions {
  bool build = true;     // false: sources alone
  std::string compiler;  // of everything. Empty: compile_kernels for kernels; for the rest what is there of the system's or
                         // zig (compiler/codegen/host_compiler.h)
  int jobs = 0;          // compilers at once; 0: one per CPU
  double seconds = 600;  // that any one of them may take
  std::function<void(int done, int all)> progress;
  bool programs = true;                                   // bin/ too
  bool archive_only = false;                              // lib/libNAME.a alone: no shared library, no program
  std::function<void(const std::string& folder)> finish;  // adds what else belongs into the folder, before it appears
};

// Writes (and builds) `project` as the folder `target`, replacing what an earlier compilation left there. Throws
// CompileError: something else stands there, no space, no compiler (or, for a device, none of its), a compiler that fails,
// crashes or hangs (with the path of its log).
void build_project(const Project& project, const std::string& target, const BuildTools& tools,
                   const BuildOptions& options = {});

}  // namespace metac
