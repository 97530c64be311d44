#include "compiler/api/compile_library.h"

#include <algorithm>
#include <chrono>

#include "compiler/api/carry_model.h"
#include "compiler/api/child_process.h"
#include "compiler/api/library_lock.h"
#include "compiler/api/schedule_file.h"
#include "compiler/codegen/build_project.h"
#include "compiler/codegen/library_weights.h"
#include "compiler/codegen/project_name.h"
#include "compiler/ir/expr_table.h"
#include "compiler/jit/cache/object_cache.h"
#include "compiler/jit/clang_compiler.h"
#include "compiler/jit/jit_program.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/program/memory/plan_swaps.h"
#include "compiler/program/memory/run_memory.h"
#include "compiler/session/session.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/file_system.h"
#include "compiler/support/hashing.h"
#include "compiler/support/seconds.h"
#include "compiler/target/precision.h"
#include "compiler/target/target.h"

namespace metac {
namespace {

constexpr size_t most_lock_bytes = 16 << 20;

// A project's objects share the kernel cache with the JIT's, under names of their own.
std::string cache_key(const std::string& key) { return "project object\n" + key; }

BuildTools tools() {
  BuildTools t;
  t.run = [](const std::vector<std::string>& argv, const std::string& folder, double limit) {
    ProcessResult r = run_process(argv, folder, limit);
    return ToolResult{r.status, r.signal, r.timed_out, std::move(r.output)};
  };
  t.find = find_tool;
  t.compile_kernels = compile_object;
  t.kernel_compiler = compiler_identity;
  t.cached = [](const std::string& key) { return ObjectCache::of_user().load(cache_key(key)).value_or(""); };
  t.keep = [](const std::string& key, const std::string& object) { ObjectCache::of_user().store(cache_key(key), object); };
  return t;
}

// The CPUs to make code for, the best first.
std::vector<CpuTarget> cpus_of(const LibraryOptions& options) {
  std::vector<CpuTarget> cpus = options.cpus;
  if (cpus.empty()) cpus.push_back(options.compile.cpu);
  std::stable_sort(cpus.begin(), cpus.end(), is_better);
  for (size_t k = 1; k < cpus.size(); ++k)
    if (cpus[k].name == cpus[k - 1].name) fail("code for ", cpus[k].name, " is asked for twice (--cpu)");
  if (cpus.size() > 1 && !options.compile.target->project_parts(options.architectures).several_cpus)
    fail("a library for --target ", options.compile.target->name(), " has one --cpu");
  return cpus;
}

// A program and the weights that run_prepare made for it.
struct Made {
  CompiledModel model;
  WeightsBlock weights;
  LibraryProgram program;
};

// Nothing fixed, then every combination of the values.
std::vector<std::map<std::string, int64_t>> combinations_of(const std::map<std::string, std::vector<int64_t>>& values) {
  constexpr size_t most = 64;
  std::vector<std::map<std::string, int64_t>> all = {{}};
  for (const auto& [name, list] : values) {
    std::vector<std::map<std::string, int64_t>> longer;
    for (const auto& combination : all)
      for (int64_t value : list) {
        longer.push_back(combination);
        longer.back()[name] = value;
      }
    all = std::move(longer);
    if (all.size() > most) fail("--dim asks for ", all.size(), " specialisations or more; ", most, " are the most");
  }
  if (!values.empty()) all.insert(all.begin(), std::map<std::string, int64_t>());
  return all;
}

class LibraryCompiler {
 public:
  LibraryCompiler(const Model& model, const LibraryOptions& options) : model_(model), o_(options) {
    report_.name = options.name.empty() ? project_name_for(file_name(model.path)) : options.name;
    check_project_name(report_.name);
    check_packages(options.packages, report_.name);
    require_compilable(model);
  }

  LibraryReport run(const std::string& folder) {
    if (!o_.tuning.empty()) choices_ = read_schedules(o_.tuning, &tuned_cpu_);
    const std::vector<std::map<std::string, int64_t>> combinations = combinations_of(o_.specialisations);
    for (const CpuTarget& cpu : cpus_of(o_)) {
      report_.cpus.push_back(cpu.name);
      for (size_t k = 0; k < combinations.size(); ++k) {
        auto add = [&](std::optional<Derivative> derivative) {
          made_.push_back(make(cpu, derivative, combinations[k]));
          made_.back()->program.specialisation = static_cast<int>(k);
          made_.back()->program.dims = combinations[k];
        };
        add({});
        if (o_.gradient)
          for (Derivative derivative : o_.derivatives) add(derivative);
      }
    }
    check_tuning();
    swap_everywhere();
    if (o_.jit) carry();
    const double begin = seconds();
    std::vector<LibraryProgram> programs;
    for (const auto& made : made_) programs.push_back(made->program);
    Project project = write_project(programs, project_options());
    if (!o_.tuning.empty()) project.files[report_.name + ".tune.json"] = o_.tuning;
    if (o_.lock || !o_.locked.empty()) report_.lock = lock_of(project);
    if (!o_.locked.empty()) check_lock(o_.locked, std::string(read_file(o_.locked, most_lock_bytes).view()), report_.lock);
    BuildOptions build;
    build.build = o_.build;
    build.compiler = o_.compiler;
    build.jobs = o_.jobs;
    build.seconds = o_.seconds;
    build.progress = o_.progress;
    build.programs = o_.programs;
    build.archive_only = o_.archive_only;
    build.finish = [&](const std::string& staged) {
      if (o_.finish) o_.finish(staged, parameters_of(programs));
      report_.packages = write_packages(project, staged, o_.packages);
    };
    build_project(project, folder, tools(), build);
    const CompiledProgram& first = made_[0]->model.run;
    report_.programs = made_.size();
    report_.kernels = first.kernels.size();
    report_.rounding_kernels =
        static_cast<size_t>(std::count_if(first.kernels.begin(), first.kernels.end(), [&](const KernelSource& kernel) {
          return multiplies(kernel, o_.compile.precision);
        }));
    report_.draws = draws(first);
    report_.steps = first.steps.size();
    report_.arena_bytes = first.arena_bytes;
    report_.planned_ahead = is_planned_ahead(first);
    report_.assumed = made_[0]->model.assumed;
    for (const auto& [name, sizes] : o_.specialisations) {
      report_.specialised += concat(report_.specialised.empty() ? "" : "; ", shown(name), " =");
      for (int64_t size : sizes) report_.specialised += concat(size == sizes[0] ? " " : ", ", size);
    }
    report_.arena_depends_on = arena_depends_on(first);
    report_.typical_arena_bytes = typical_arena_bytes(first);
    report_.exchanges = first.exchanges.size();
    report_.live_set_bytes = first.live_set_bytes;
    report_.run_bytes = run_bytes(first);
    report_.copied_bytes = copied_bytes(first);
    report_.overwrites.assign(first.outputs.size(), true);
    for (const auto& made : made_)
      for (size_t k = 0; k < first.outputs.size(); ++k)
        report_.overwrites[k] = report_.overwrites[k] && made->model.run.outputs[k].overwrites >= 0;
    report_.recomputed_values = made_[0]->model.recomputed_values;
    report_.recomputed_seconds = made_[0]->model.recomputed_seconds;
    for (std::string_view piece : project.weights) report_.weight_bytes += static_cast<int64_t>(piece.size());
    report_.build_seconds = seconds() - begin;
    return report_;
  }

 private:
  // A specialised program must answer what the library answers.
  void carry() {
    if (!o_.compile.target->project_parts(o_.architectures).carries_model)
      fail("--jit is for --target ", targets()[0]->name());
    if (o_.lower.allow_code) fail("--jit: libmetac does not compile the code that a model holds (--allow-code)");
    if (draws(made_[0]->model.run))
      fail("--jit: the model draws random numbers, and a specialised program would draw others than the library");
    carried_ = carry_model(model_, o_.lower);
  }

  static std::vector<RawParameter> parameters_of(const std::vector<LibraryProgram>& programs) {
    std::vector<RawParameter> parameters;
    for (const auto& [program, input] : plan_library_weights(programs).parameters)
      parameters.push_back(programs[program].model->parameters[input]);
    return parameters;
  }

  // Where one program copies weights in while it runs, the host keeps them: the others have them copied too, those that stay
  // and no more.
  void swap_everywhere() {
    const bool any =
        std::any_of(made_.begin(), made_.end(), [](const auto& made) { return !made->model.run.loads.empty(); });
    for (const auto& made : made_)
      if (any && made->model.run.loads.empty()) plan_swaps(made->model.run, o_.compile.memory_budget);
  }

  // Layouts and blocks that do not fit together take what the choice under a budget does not see: then it is made again with
  // a margin.
  CompiledModel compile(CompileOptions options, std::optional<Derivative> derivative, const LowerOptions& lower) {
    int64_t least = INT64_MAX;
    for (int attempt = 0;; ++attempt) {
      const double begin = seconds();
      const ExprScope scope;
      std::unique_ptr<Graph> graph = lower_model(model_, lower);
      if (derivative) differentiate(*graph, *derivative, *o_.gradient);
      const double lowered = seconds();
      CompiledModel model = compile_graph(*graph, options);
      report_.lower_seconds += lowered - begin;
      report_.compile_seconds += seconds() - lowered;
      const int64_t bytes = run_bytes(model.run);
      if (options.memory_budget == 0 || bytes <= options.memory_budget) return model;
      least = std::min(least, bytes);
      const bool last = attempt == 4 || !model.fits_budget;
      if (last && options.target->copies_weights_in() && !o_.gradient) {
        // Nothing made again and weights copied in while it runs; else both.
        CompileOptions whole = options;
        whole.memory_budget = 0;
        const std::unique_ptr<Graph> again = lower_model(model_, lower);
        CompiledModel swapped = compile_graph(*again, whole);
        swapped.memory_budget = options.memory_budget;
        if (plan_swaps(swapped.run, options.memory_budget)) return swapped;
        if (plan_swaps(model.run, options.memory_budget)) return model;
      }
      if (last)
        fail("the memory budget of ", options.memory_budget,
             " bytes cannot be met: ", derivative ? concat(name_of(*derivative), " takes") : std::string("a run takes"), " ",
             least, " bytes at least (", bytes - model.run.arena_bytes, " of them inputs, outputs and weights)");
      options.budget_margin +=
          static_cast<double>(bytes - options.memory_budget) / static_cast<double>(options.memory_budget) + 0.002;
    }
  }

  // `dims`: fixed for this program.
  std::unique_ptr<Made> make(const CpuTarget& cpu, std::optional<Derivative> derivative,
                             const std::map<std::string, int64_t>& dims) {
    LowerOptions lower = o_.lower;
    for (const auto& [name, value] : dims) lower.dims[name] = {.name = name, .min = value, .max = value};
    CompileOptions options = o_.compile;
    options.cpu = cpu;
    if (cpu.name == tuned_cpu_) options.choices = &choices_;
    auto made = std::make_unique<Made>();
    made->model = compile(options, derivative, lower);
    double compiled = seconds();
    // Preparing the weights runs here, whatever machine the library is for. Where contexts do it, it is a trial.
    if (made_.empty() || cpu.name == made_[0]->program.cpu.name)
      made->weights = run_prepare(made->model, runs_here(cpu) ? cpu : cpu_target("native"));
    made->program = {&made->model, made->weights.get(), cpu, derivative ? name_of(*derivative) : "run", 0, {}};
    report_.prepare_seconds += seconds() - compiled;
    return made;
  }

  // A tuning of another CPU, model or shape is a mistake that should not pass for a success.
  void check_tuning() const {
    if (o_.tuning.empty()) return;
    bool any = false;
    for (const auto& made : made_) any |= made->program.cpu.name == tuned_cpu_;
    if (!any)
      fail("--tune-from: these are schedules for ", tuned_cpu_, ", and this is for ", made_[0]->program.cpu.name,
           " (--cpu)");
    const std::vector<std::string> refused = choices_.refused();
    if (!refused.empty()) fail("--tune-from: ", refused[0]);
  }

  ProjectOptions project_options() const {
    ProjectOptions project;
    project.name = report_.name;
    project.parts = o_.compile.target->project_parts(o_.architectures);
    project.embed_weights = o_.embed_weights;
    if (o_.jit) project.carried = &carried_;
    if (o_.decoder) project.decoder = &*o_.decoder;
    project.tokenizer = o_.tokenizer;
    project.package_version = o_.packages.version;
    project.model_hash = model_.sha256;
    if (o_.gradient)
      project.value_kinds = *o_.gradient == Wrt::inputs       ? "inputs"
                            : *o_.gradient == Wrt::parameters ? "parameters"
                                                              : "inputs and parameters";
    project.recorded = o_.recorded;
    if (!o_.tuning.empty()) project.recorded["tuning_sha256"] = sha256_hex(o_.tuning);
    for (const Node& node : model_.graph.nodes) project.nodes.push_back({node.name, node.op_type});
    return project;
  }

  const Model& model_;
  const LibraryOptions& o_;
  LibraryReport report_;
  std::vector<std::unique_ptr<Made>> made_;
  Choices choices_;
  std::string tuned_cpu_;
  CarriedModel carried_;
};

}  // namespace

LibraryReport compile_library(const Model& model, const std::string& folder, const LibraryOptions& options) {
  try {
    return LibraryCompiler(model, options).run(folder);
  } catch (CompileError& error) {
    if (!error.diagnostic.file.empty()) throw;
    throw CompileError({model.path, error.diagnostic.node, error.diagnostic.message});
  }
}

}  // namespace metac
