#include "compiler/api/compile_library.h"

#include <chrono>

#include "compiler/api/child_process.h"
#include "compiler/api/session.h"
#include "compiler/codegen/build_project.h"
#include "compiler/jit/clang_compiler.h"
#include "compiler/jit/cpu_target.h"
#include "compiler/jit/jit_program.h"
#include "compiler/jit/object_cache.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/file_system.h"

namespace metac {
namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// A project's objects share the kernel cache with the JIT's, under names of their own.
std::string cache_key(const std::string& key) { return "project object\n" + key; }

BuildTools tools(const CpuTarget& cpu) {
  BuildTools t;
  t.run = [](const std::vector<std::string>& argv, const std::string& folder, double limit) {
    ProcessResult r = run_process(argv, folder, limit);
    return ToolResult{r.status, r.signal, r.timed_out, std::move(r.output)};
  };
  t.find = find_program;
  t.compile_kernels = [cpu](const std::string& text) { return compile_object(text, cpu); };
  t.kernel_compiler = compiler_identity(cpu);
  t.cached = [](const std::string& key) { return ObjectCache::of_user().load(cache_key(key)).value_or(""); };
  t.keep = [](const std::string& key, const std::string& object) { ObjectCache::of_user().store(cache_key(key), object); };
  return t;
}

LibraryReport compile(const Model& model, const std::string& folder, const LibraryOptions& options) {
  LibraryReport report;
  report.name = options.name.empty() ? project_name_for(file_name(model.path)) : options.name;
  check_project_name(report.name);
  require_compilable(model);
  double begin = seconds();
  std::unique_ptr<Graph> graph = lower_model(model, options.lower);
  double lowered = seconds();
  CompiledModel compiled = compile_graph(*graph, options.compile);
  graph.reset();
  double made = seconds();
  // Preparing the weights runs here, whatever machine the library is for.
  CpuTarget here = runs_here(options.compile.cpu) ? options.compile.cpu : cpu_target("native");
  WeightsBlock weights = run_prepare(compiled, here);
  double prepared = seconds();

  ProjectOptions project;
  project.name = report.name;
  project.target = options.compile.target;
  project.cpu = options.compile.cpu;
  project.cuda = options.cuda;
  project.embed_weights = options.embed_weights;
  project.model_hash = model.sha256;
  project.recorded = options.recorded;
  for (const Node& node : model.graph.nodes) project.nodes.push_back({node.name, node.op_type});
  BuildOptions build;
  build.build = options.build;
  build.compiler = options.compiler;
  build.jobs = options.jobs;
  build.seconds = options.seconds;
  build.progress = options.progress;
  build_project(write_project(compiled, weights.get(), project), folder, tools(project.cpu), build);

  report.kernels = compiled.run.kernels.size();
  report.steps = compiled.run.steps.size();
  report.arena_bytes = compiled.run.arena_bytes;
  report.live_set_bytes = compiled.run.live_set_bytes;
  report.weight_bytes = compiled.run.weight_bytes;
  report.lower_seconds = lowered - begin;
  report.compile_seconds = made - lowered;
  report.prepare_seconds = prepared - made;
  report.build_seconds = seconds() - prepared;
  return report;
}

}  // namespace

LibraryReport compile_library(const Model& model, const std::string& folder, const LibraryOptions& options) {
  try {
    return compile(model, folder, options);
  } catch (CompileError& error) {
    if (!error.diagnostic.file.empty()) throw;
    throw CompileError({model.path, error.diagnostic.node, error.diagnostic.message});
  }
}

}  // namespace metac
