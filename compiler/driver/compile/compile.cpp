// metac compile: a model to a library in a folder.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "compiler/api/compile_library.h"
#include "compiler/api/compile_training.h"
#include "compiler/api/portable_cpus.h"
#include "compiler/api/schedule_file.h"
#include "compiler/api/tune.h"
#include "compiler/codegen/project.h"
#include "compiler/codegen/project_name.h"
#include "compiler/driver/command.h"
#include "compiler/driver/compile/compile_arguments.h"
#include "compiler/driver/compile/compile_report.h"
#include "compiler/driver/compile/training_form.h"
#include "compiler/driver/options/quantities.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/ops/control/body_parameters.h"
#include "compiler/program/pass_list.h"
#include "compiler/quantize/quantize_for_training.h"
#include "compiler/support/file_system.h"
#include "compiler/target/precision.h"
#include "compiler/target/target.h"
#include "frontends/read_model.h"
#include "frontends/tokenizer/tokenizer.h"

namespace metac {
namespace {

void print_nodes(const Model& model) {
  for (size_t i = 0; i < model.graph.nodes.size(); ++i) {
    const Node& node = model.graph.nodes[i];
    std::printf("%s:", describe(node, static_cast<int>(i)).c_str());
    for (const std::string& in : node.inputs) std::printf(" %s", in.empty() ? "-" : quoted(in).c_str());
    std::printf(" ->");
    for (const std::string& out : node.outputs) std::printf(" %s", out.empty() ? "-" : quoted(out).c_str());
    std::printf("\n");
  }
}

std::map<std::string, std::string> recorded(const CompileArguments& o) {
  std::map<std::string, std::string> rows = {{"fusion", o.fusion},
                                             {"external", std::string(target_of(o).default_libraries())}};
  if (!o.external.empty() && rows["external"] != "none") rows["external"] = o.external;
  auto joined = [](const std::vector<std::string>& texts) {
    std::string all;
    for (const std::string& t : texts) all += (all.empty() ? "" : " ") + t;
    return all;
  };
  if (!o.grad.empty()) rows["grad"] = o.grad;
  if (o.jit) rows["jit"] = "on";
  if (!o.derivatives.empty()) rows["derivatives"] = joined(o.derivatives);
  if (&target_of(o) != targets()[0]) rows["target"] = o.target;
  if (o.tf32 != "off") rows["tf32"] = o.tf32;
  if (!o.shapes.empty()) rows["shape"] = joined(o.shapes);
  if (!o.dims.empty()) rows["dim"] = joined(o.dims);
  if (!o.ops.empty()) rows["ops"] = joined(o.ops);
  if (o.precision != "float32") rows["precision"] = o.precision;
  if (!o.keep.empty()) rows["keep"] = joined(o.keep);
  if (!o.states.empty()) rows["state"] = joined(o.states);
  if (o.generate) rows["generate"] = "on";
  if (!o.adapters.sets.empty()) rows["adapters"] = joined(o.adapters.sets);
  if (o.adapters.each_row) rows["adapter_per_row"] = "on";
  if (o.packages.version != PackageOptions().version) rows["package_version"] = o.packages.version;
  return rows;
}

std::vector<Derivative> derivatives_of(const CompileArguments& o) {
  if (!o.derivatives.empty() && o.grad.empty())
    throw UsageError("--derivatives says which of the functions of --grad to make: give --grad too");
  std::vector<Derivative> chosen;
  for (Derivative derivative : {Derivative::vjp, Derivative::jvp, Derivative::hvp})
    if (o.derivatives.empty() ||
        std::find(o.derivatives.begin(), o.derivatives.end(), name_of(derivative)) != o.derivatives.end())
      chosen.push_back(derivative);
  return chosen;
}

// The text of --tune-from, which is known to hold schedules.
std::string schedules_of(const CompileArguments& o) {
  std::string text(read_file(o.tune_from, 64 << 20).view()), cpu;
  try {
    read_schedules(text, &cpu);
  } catch (const CompileError& error) {
    fail(shown(o.tune_from), ": ", error.what());
  }
  return text;
}

// With --emit schedules: what was decided, as --tune-from takes it.
void print_schedules(const CompileArguments& o, const Model& model, const LibraryOptions& library) {
  if (!target_of(o).takes_schedules() || !o.train.empty() || library.cpus.size() > 1)
    throw UsageError("--emit schedules is for a model's program on one CPU: without --target, --train, several --cpu");
  Choices choices;
  std::string cpu = library.compile.cpu.name;
  if (!o.tune_from.empty()) choices = read_schedules(schedules_of(o), &cpu);
  if (cpu != library.compile.cpu.name) fail("--tune-from: it is for ", cpu, ", and this is for ", library.compile.cpu.name);
  CompileOptions options = library.compile;
  options.choices = &choices;
  std::unique_ptr<Graph> graph = lower_model(model, library.lower);
  const CompiledModel compiled = compile_graph(*graph, options);
  if (const std::vector<std::string> refused = choices.refused(); !refused.empty()) fail("--tune-from: ", refused[0]);
  std::cout << schedules_text(model, compiled, options, choices);
}

// With --emit: a model, or a step of training.
int print_stages(const CompileArguments& o, const Model& model, const LibraryOptions& library) {
  require_compilable(model);
  if (o.emit == "graph") {
    print_nodes(model);
  } else if (o.emit == "schedules") {
    print_schedules(o, model, library);
  } else {
    std::unique_ptr<Graph> graph = lower_model(model, library.lower);
    compile_graph(*graph, library.compile);
  }
  return exit_good;
}

// What a target refuses of the options that are for it is a matter of usage.
template <typename Ask>
auto asked(const CompileArguments& o, Ask ask) {
  try {
    return ask(target_of(o));
  } catch (const CompileError& error) {
    throw UsageError(error.diagnostic.message);
  }
}

std::string tuned(const CompileArguments& o, const Model& model) {
  if (!target_of(o).takes_schedules())
    throw UsageError("--tune measures on this machine's CPU: not with --target " + o.target);
  TuneOptions options;
  options.session = o.session();
  const bool terminal = isatty(2) != 0 && !o.json;
  if (terminal)
    options.progress = [](const std::string& what, int round) {
      std::fprintf(stderr, "\r\033[Ktuning, round %d: %s", round + 1, what.c_str());
    };
  const Tuning tuning = tune(model, options);
  if (terminal) std::fprintf(stderr, "\r\033[K");
  if (!o.json)
    std::printf("tuned in %zu rounds: %zu of %zu other candidates are faster; %s to %s a run\n", tuning.rounds, tuning.taken,
                tuning.offered, show_seconds(tuning.model_ms * 1e-3).c_str(), show_seconds(tuning.tuned_ms * 1e-3).c_str());
  return tuning.text;
}

// What a session would compile otherwise than the library.
void check_jit(const CompileArguments& o) {
  const CompileArguments usual;
  const char* other = !o.train.empty()                 ? "--train"
                      : o.fusion != usual.fusion       ? "--fusion"
                      : o.winograd != usual.winograd   ? "--winograd"
                      : o.precision != usual.precision ? "--precision"
                      : !o.max_tensor_bytes.empty()    ? "--max-tensor-bytes"
                      : o.tune || !o.tune_from.empty() ? "--tune"
                      : !o.memory_budget.empty()       ? "--memory-budget"
                                                       : nullptr;
  if (o.jit && other) throw UsageError(std::string("--jit is not for ") + other + ": libmetac makes programs without it");
}

// Portable code is a library's: what is measured here, or runs here once it is trained, is native.
void settle_cpu(CompileArguments& o) {
  const bool one = o.emit != "project" || !o.train.empty() || o.tune || !o.tune_from.empty() ||
                   !asked(o, [&](const Target& target) { return target.project_parts(o.architectures); }).several_cpus;
  if (o.cpu == "portable" && one) o.cpu = "native";
}

// A package holds a built library with the weights that it is to be used with, and says what it needs of a system.
void check_packaging(const CompileArguments& o) {
  if (!o.packages.wheel && !o.packages.deb) return;
  const char* why = o.emit != "project" ? "--emit: it stops before there is a library"
                    : o.no_build        ? "--no-build: packages hold the built library"
                    : !o.train.empty()  ? "--train: the weights that belong into a package are those of a training"
                    : &target_of(o) != targets()[0]
                        ? "--target: what a GPU's library needs no package can name: a driver, and "
                          "CUDA's libraries; `pip install DIR/python` is for one machine"
                        : nullptr;
  if (why) throw UsageError(concat(o.packages.wheel ? "--wheel" : "--deb", " is not for ", why));
}

// A training makes adapters.
void check_adapters(const CompileArguments& o) {
  if (!o.adapters.sets.empty() && !o.train.empty())
    throw UsageError("--adapters is not for --train: \"adapters\" of the recipe are what is trained");
}

// What --state says: IN=OUT, or auto for the pairs that are known by their names.
std::vector<StateNames> states_of(const CompileArguments& o, const Model& model) {
  if (o.states.empty() && !o.generate) return {};
  const char* other = !o.train.empty()  ? "--train"
                      : !o.grad.empty() ? "--grad"
                      : o.jit           ? "--jit"
                      : o.tune          ? "--tune"
                                        : nullptr;
  if (other) throw UsageError(std::string(o.generate ? "--generate" : "--state") + " is not for " + other + " yet");
  std::vector<StateNames> states;
  for (const std::string& text : o.states.empty() ? std::vector<std::string>{"auto"} : o.states) {
    std::vector<StateNames> said;
    if (text == "auto") {
      said = known_states(model);
      if (said.empty())
        fail("--state auto: no input and output of the model are known as a state by their names; give IN=OUT");
    } else {
      const size_t equals = text.find('=');
      if (equals == std::string::npos) throw UsageError("--state " + text + ": expected IN=OUT, or auto");
      said.push_back({text.substr(0, equals), text.substr(equals + 1)});
    }
    for (StateNames& names : said)
      if (std::find(states.begin(), states.end(), names) == states.end()) states.push_back(std::move(names));
  }
  return states;
}

// Where the paths of the recipe's data begin.
std::string data_folder(const CompileArguments& o) {
  if (!o.data.empty()) return o.data;
  const std::string folder = std::filesystem::path(o.train).parent_path().string();
  return folder.empty() ? "." : folder;
}

// In which a network shows its ranges: on this machine, whatever the library is for.
SessionOptions session_of_ranges(const CompileArguments& o, const LibraryOptions& library) {
  SessionOptions session;
  session.compile.cpu = cpu_target("native");
  session.threads = o.threads;
  session.lower = library.lower;
  return session;
}

int compile_command(CompileArguments o) {
  check_jit(o);
  const bool stages_only = o.emit != "project";
  check_packaging(o);
  check_adapters(o);
  if (o.output.empty() && !stages_only) throw UsageError("-o DIR is missing: where the library goes");
  settle_cpu(o);
  LibraryOptions library;
  Model model = with_adapter_choice(read_hashed_model(o.model), o.adapters);
  library.cpus = o.cpu == "portable" ? portable_cpus(model, *precision_named(o.precision)) : o.cpus();
  library.compile = o.compile_for(library.cpus[0]);
  const bool makes_library = !stages_only && o.train.empty() && !o.tune;
  library.lower = makes_library ? o.lower(&library.specialisations) : o.lower();
  library.compile.target = &target_of(o);
  library.compile.external =
      asked(o, [&](const Target& target) { return target.external_libraries(o.external, o.tf32 == "on"); });
  library.architectures = o.architectures;
  if (!o.name.empty()) check_project_name(o.name);
  o.check_precision(!o.train.empty(), target_of(o));
  o.note_kept(model);
  Recipe recipe;
  if (!o.train.empty()) recipe = read_recipe(o.train);
  // An algorithm of the model's own says by name what it updates.
  if ((!o.train.empty() || !o.grad.empty()) && !recipe.algorithm) model = with_body_parameters(model);
  library.lower.states = states_of(o, model);
  if (o.generate) library.decoder = decoder_ports(model, library.lower.states);
  if (o.generate) library.decoder->adapters = adapter_names(o.adapters);
  if (o.generate) library.lower.last_step_of = library.decoder->logits;
  if (o.generate && !o.generate->empty()) library.tokenizer = read_tokenizer(*o.generate);
  library.compile.emit = stages_only ? o.emit : "";
  library.compile.print_after = o.print_after;
  library.compile.time_passes = o.times;
  library.compile.trace = &std::cout;
  if (!o.memory_budget.empty()) library.compile.memory_budget = parse_bytes("--memory-budget", o.memory_budget);
  std::optional<QuantizedNetwork> quantized;
  if (recipe.quantization) quantized = quantize_for_training(model, recipe, data_folder(o), session_of_ranges(o, library));
  const QuantizedNetwork* const to_train = quantized ? &*quantized : nullptr;
  if (stages_only) {
    if (o.train.empty()) return print_stages(o, model, library);
    const TrainingModel training = training_model(model, recipe, library.lower, to_train);
    library.lower = {};
    print_stages(o, training.step, library);
    for (const FurtherStep& step : training.further) print_stages(o, step.model, library);
    return exit_good;
  }
  library.derivatives = derivatives_of(o);
  if (!o.grad.empty())
    library.gradient = o.grad == "inputs" ? Wrt::inputs : o.grad == "parameters" ? Wrt::parameters : Wrt::all;
  if (o.tune && !o.tune_from.empty())
    throw UsageError("--tune measures, --tune-from takes what was measured: give one of them");
  if (o.tune) library.tuning = tuned(o, model);
  if (!o.tune_from.empty()) library.tuning = schedules_of(o);
  if (!o.train.empty() && !(o.lock + o.locked).empty()) throw UsageError("--lock and --locked are not for --train yet");
  library.lock = !o.lock.empty();
  library.locked = o.locked;
  library.name = o.name;
  library.embed_weights = o.embed_weights;
  library.packages = o.packages;
  library.jit = o.jit;
  library.build = !o.no_build;
  if (o.no_programs && (o.generate || !o.train.empty()))
    throw UsageError("--no-programs: --train and --generate are for the programs that they make");
  library.programs = !o.no_programs;
  library.compiler = o.compiler;
  library.jobs = o.jobs;
  library.seconds = o.seconds;
  library.recorded = recorded(o);
  if (o.train.empty()) warn_of_training_form(model);
  if (!o.train.empty()) library.recorded["train"] = file_name(o.train);
  const bool terminal = isatty(2) != 0 && !o.json;
  if (terminal)
    library.progress = [](int done, int all) {
      std::fprintf(stderr, "\rbuilding %d of %d%s", done, all, done == all ? "\r\033[K" : "");
    };
  if (!o.train.empty()) {
    const TrainingReport training = compile_training(model, recipe, o.output, library, to_train);
    report(o, training.inference, &training);
  } else {
    const LibraryReport made = compile_library(model, o.output, library);
    if (library.lock) {
      make_parents(o.lock);
      write_file(o.lock, made.lock);
    }
    report(o, made, nullptr);
  }
  return exit_good;
}

}  // namespace

void add_compile_command(CLI::App& app, int* status) {
  auto o = std::make_shared<CompileArguments>();
  CLI::App* command =
      app.add_subcommand("compile", "compile a model to a library: C, C++, Python and CMake, no dependencies");
  add_model_argument(*command, *o);
  command->add_option("-o,--output", o->output, "the folder to write; an earlier compilation there is replaced")
      ->type_name("DIR");
  command->add_option("--name", o->name,
                      "of the library and the prefix of its functions; default: from the model's file name");
  add_shape_options(*command, *o);
  add_ops_option(*command, *o);
  add_compile_options(*command, *o);
  add_precision_options(*command, *o);
  add_adapter_options(*command, o->adapters);
  command->add_flag("--embed-weights", o->embed_weights, "put the weights into the library");
  command->add_flag("--no-build", o->no_build, "write the sources alone");
  add_package_options(*command, o->packages);
  command->add_flag("--no-programs", o->no_programs, "build the library alone, not DIR/bin/NAME_run");
  command
      ->add_option("--cxx", o->compiler,
                   "the C++ compiler of everything; default: kernels by metac itself, the rest by the first of c++, g++, "
                   "clang++, zig on PATH, or by the Python package ziglang")
      ->type_name("PROGRAM");
  command->add_option("--jobs", o->jobs, "compilers at once; 0: one per CPU")
      ->check(CLI::Range(0, 256))
      ->capture_default_str();
  command->add_option("--compiler-timeout", o->seconds, "seconds that any one compiler may take")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  add_target_option(*command, o->target, "what the library runs on: cpu, or cuda (an NVIDIA GPU; building needs nvcc)");
  command
      ->add_option(
          "--arch,--cuda-arch", o->architectures,
          "architectures of the target's devices to make machine code for; cuda: with PTX of the last, 80,90 by default")
      ->type_name("80,90,...");
  command
      ->add_option("--external", o->external,
                   "vendor libraries that kernels of a GPU ask first: none, cublas (matrix products by cuBLASLt), cudnn "
                   "(convolutions), or auto (all of them; the default there)")
      ->type_name("LIBRARIES");
  command
      ->add_option(
          "--tf32", o->tf32,
          "on: products, of vendor libraries and generated kernels, may round float32 operands to 10 bits of mantissa")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  command
      ->add_option("--state", o->states,
                   "the value of output OUT of one run is that of input IN in the next, and the context keeps it; auto: all "
                   "pairs that are known by their names (metac check lists them; docs/states.md)")
      ->type_name("IN=OUT")
      ->expected(1)
      ->take_all();
  command
      ->add_option_function<std::vector<std::string>>(
          "--generate", [o](const std::vector<std::string>& given) { o->generate = given.empty() ? "" : given[0]; },
          "also make a program that continues a prompt, DIR/bin/NAME_generate, and calls for it (docs/generation.md); "
          "states "
          "are kept as by --state auto unless --state says which")
      ->type_name("[TOKENIZER]")
      ->expected(0, 1);
  command
      ->add_option("--train", o->train,
                   "also make a training program, DIR/bin/NAME_train, as this recipe says (docs/training.md)")
      ->type_name("RECIPE.json");
  command
      ->add_option("--data", o->data,
                   "with --train, where the recipe has \"quantization\": the folder in which the paths of its data begin; "
                   "default: the recipe's folder")
      ->type_name("DIR");
  command->add_option("--emit", o->emit, "stop at a stage and print it")
      ->check(CLI::IsMember({"graph", "meta", "fused", "schedules", "loops", "project"}))
      ->capture_default_str();
  std::vector<std::string> passes;
  for (const Target* target : targets())
    for (const PassEntry& pass : pass_list(*target))
      if (std::find(passes.begin(), passes.end(), pass.name) == passes.end()) passes.emplace_back(pass.name);
  command->add_option("--print-after", o->print_after, "print the program after this pass")
      ->check(CLI::IsMember(passes))
      ->type_name("PASS");
  command->add_flag("--time-passes", o->times, "say how long each part took");
  command->add_flag("--json", o->json, "the summary as JSON");
  command
      ->add_flag("--grad{all}", o->grad,
                 "derivatives too (NAME_vjp, NAME_jvp, NAME_hvp), by all floating-point inputs and parameters, or by "
                 "--grad=inputs or --grad=parameters alone")
      ->check(CLI::IsMember({"inputs", "parameters", "all"}));
  command
      ->add_option("--derivatives", o->derivatives,
                   "with --grad: which of vjp, jvp and hvp, separated by commas; all, if none is named. Each has kernels "
                   "and prepared weights of its own")
      ->check(CLI::IsMember({"vjp", "jvp", "hvp"}))
      ->delimiter(',')
      ->type_name("LIST");
  command->add_flag("--tune", o->tune,
                    "measure schedules on this machine, take the fastest and write them to NAME.tune.json; needs every dim");
  command
      ->add_option("--tune-from", o->tune_from,
                   "take the schedules of an earlier compilation's NAME.tune.json, or of --emit schedules")
      ->type_name("FILE");
  add_threads_option(*command, *o);
  command->add_flag("--jit", o->jit,
                    "the library carries its model and, where libmetac is at run time, makes programs for shapes that come "
                    "again in the background (docs/sessions.md)");
  command
      ->add_option("--lock", o->lock,
                   "write what the library is made from (model, options, versions) and the hashes of all its files")
      ->type_name("FILE.json");
  command->add_option("--locked", o->locked, "refuse to make another library than this file of --lock says")
      ->type_name("FILE.json");
  command
      ->add_option(
          "--memory-budget", o->memory_budget,
          "what a run (with --train: a step) may take, inputs, outputs and weights included: values are made again where "
          "keeping them would not fit; for a GPU, weights are copied in while it runs where that does not suffice")
      ->type_name("BYTES");
  for (const char* name : {"--max-memory", "--max-time"})
    add_unavailable_option(*command, name, "this build compiles inference ahead of time");
  command->callback([=] { *status = compile_command(*o); });
}

}  // namespace metac
