// A model to a generated library in a folder: lowering, compilation, prepared weights, sources, build. What `metac
// compile` and `verify --aot` do.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/autodiff/derivative_program.h"
#include "compiler/codegen/package/packages.h"
#include "compiler/ops/decoder_ports.h"
#include "compiler/ops/lower_model.h"
#include "compiler/ops/model.h"
#include "compiler/program/compile.h"
#include "compiler/program/program.h"

namespace metac {

struct LibraryOptions {
  CompileOptions compile;
  std::vector<CpuTarget> cpus;  // code for each, chosen at run time; empty: for compile.cpu alone
  std::string tuning;           // the text of a NAME.tune.json (compiler/api/tune.h); empty: none
  std::optional<Wrt> gradient;  // --grad: derivatives beside the model, and by what
  std::vector<Derivative> derivatives = {Derivative::vjp, Derivative::jvp, Derivative::hvp};  // which of them, each once
  LowerOptions lower;
  // Dims by name: a program for each combination beside the one for all shapes, which leaves them open.
  std::map<std::string, std::vector<int64_t>> specialisations;
  std::string architectures;  // of the target's devices, as Target::project_parts has them
  std::string name;           // of the library; empty: from the model's file name
  bool embed_weights = false, build = true;
  std::optional<DecoderPorts> decoder;  // --generate: the library continues texts
  std::string tokenizer;                // its table (frontends/tokenizer); empty: tokens alone
  bool jit = false;                     // the library carries its model and specialises itself where libmetac is
  std::string compiler;  // of everything; empty: kernels in this process, the rest by the first of c++, g++, clang++ on PATH
  int jobs = 0;          // compilers at once; 0: one per CPU
  double seconds = 600;  // that any one compiler may take
  PackageOptions packages;
  std::map<std::string, std::string> recorded;  // options, for the manifest
  std::function<void(int done, int all)> progress;
  bool programs = true;       // bin/ too
  bool archive_only = false;  // the static library alone
  bool lock = false;          // say in the report what the library is made from (library_lock.h)
  std::string locked;         // a lock file that this must be the library of; empty: none
  // Adds what else belongs into the folder, before it appears; `parameters`: the library's, in order. Those that are no
  // initialisers of the model have no name.
  std::function<void(const std::string& folder, const std::vector<RawParameter>& parameters)> finish;
};

// Of the program for the best of the CPUs, but the weights and seconds, which are those of all.
struct LibraryReport {
  std::string name;
  std::vector<std::string> cpus;  // that there is code for, the best first
  size_t programs = 0;
  size_t kernels = 0, steps = 0;
  size_t rounding_kernels = 0;  // that multiply what --precision rounds to
  size_t exchanges = 0;     // values that processes which train together average
  bool draws = false;       // random numbers: two contexts' answers agree, two runs' do not
  int64_t arena_bytes = 0, live_set_bytes = 0, weight_bytes = 0;
  bool planned_ahead = true;  // else arena_bytes, live_set_bytes and run_bytes lack what a run plans
  std::string assumed;        // what schedules are made for where dims are open: "n = 1, h = 224"; empty: none is
  std::string specialised;    // the sizes that have programs of their own: "n = 1, 8; h = 224"; empty: none has
  // What the arena depends on, "n, h", and its bytes for the dims assumed; empty and arena_bytes where it is planned ahead.
  std::string arena_depends_on;
  int64_t typical_arena_bytes = 0;
  int64_t run_bytes = 0;  // arena, weights, inputs and outputs of the first program
  std::vector<bool>
      overwrites;            // by output: in all programs it may have the memory of its input of CompileOptions::next_values
  int64_t copied_bytes = 0;  // under a memory budget, on a GPU: of weights, in every run of the first program
  int64_t recomputed_values = 0;      // under a memory budget: made a second time
  double recomputed_seconds = 0;      // what that costs by the model
  std::string lock;                   // of what was made, where it was asked for
  std::vector<std::string> packages;  // paths in the folder, as "dist/net-1.0.0-py3-none-manylinux_2_34_x86_64.whl"
  double lower_seconds = 0, compile_seconds = 0, prepare_seconds = 0, build_seconds = 0;
};

// Throws CompileError naming the model's file. `folder` appears whole or not at all.
LibraryReport compile_library(const Model& model, const std::string& folder, const LibraryOptions& options);

}  // namespace metac
