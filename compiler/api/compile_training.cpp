#include "compiler/api/compile_training.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "compiler/api/child_process.h"
#include "compiler/api/train_tables_text.h"
#include "compiler/codegen/build_project.h"
#include "compiler/codegen/embedded_files.h"
#include "compiler/codegen/host_compiler.h"
#include "compiler/codegen/project.h"
#include "compiler/codegen/project_name.h"
#include "compiler/codegen/text/fill_template.h"
#include "compiler/jit/cache/object_cache.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/ops/control/body_parameters.h"
#include "compiler/session/session.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/file_system.h"
#include "compiler/support/hashing.h"
#include "compiler/support/seconds.h"
#include "compiler/target/target.h"
#include "compiler/train/adapters/add_adapters.h"
#include "compiler/train/forms/exported_parameters.h"
#include "compiler/train/forms/inference_form.h"
#include "compiler/train/forms/model_algorithm.h"
#include "compiler/train/forms/straight_through.h"
#include "compiler/train/step_program.h"
#include "frontends/onnx/onnx.h"
#include "frontends/read_model.h"
#include "runtime/train/record/crc32.h"

namespace metac {
namespace {

// The values that training starts from, one after another at multiples of 64 bytes.
class InitialFile {
 public:
  int64_t add(const Tensor& tensor) {
    bytes_.resize((bytes_.size() + 63) / 64 * 64);
    const int64_t offset = static_cast<int64_t>(bytes_.size());
    bytes_.append(reinterpret_cast<const char*>(tensor.bytes.get()), tensor.byte_count());
    return offset;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class TrainingCompiler {
 public:
  TrainingCompiler(const Model& model, const Recipe& recipe, const LibraryOptions& options,
                   const QuantizedNetwork* quantized)
      : model_(model),
        recipe_(recipe),
        quantized_(quantized),
        options_(options),
        parts_(options.compile.target->project_parts(options.architectures)) {
    files_.exchange = parts_.exchange;
    files_.memory = parts_.memory;
    files_.name = options.name.empty() ? project_name_for(file_name(model.path)) : options.name;
    check_project_name(files_.name + "_evaluate");
  }

  TrainingReport run(const std::string& folder) {
    training_ = training_model(model_, recipe_, options_.lower, quantized_);
    report_.notes = training_.notes;
    LibraryOptions inference = options_;
    inference.name = files_.name;
    inference.compile.memory_budget = 0;  // a budget is the step's
    inference.finish = [&](const std::string& staged, const std::vector<RawParameter>& parameters) {
      add_training(staged, parameters);
    };
    report_.inference = compile_library(training_.network, folder, inference);
    return report_;
  }

 private:
  void add_training(const std::string& staged, const std::vector<RawParameter>& parameters) {
    folder_ = staged + "/train";
    std::filesystem::create_directories(folder_);
    for (const TrainingState& state : training_.states)
      report_.state_bytes += static_cast<int64_t>(state.initial.byte_count());
    report_.step = compile_part(training_.step, "step", training_.step_inputs, training_.step_outputs);
    files_.step_bytes = report_.step.run_bytes;
    files_.memory_budget = options_.compile.memory_budget;
    files_.recomputed = report_.step.recomputed_values;
    for (size_t k = 0; k < training_.further.size(); ++k) {
      report_.further.push_back(compile_part(training_.further[k].model, further_name(k), training_.further[k].inputs,
                                             training_.further[k].outputs));
      files_.step_bytes = std::max(files_.step_bytes, report_.further.back().run_bytes);
      files_.recomputed += report_.further.back().recomputed_values;
    }
    if (training_.has_evaluation) report_.evaluate = compile_part(training_.evaluate, "evaluate", {}, {});
    const double begin = seconds();
    write_values(parameters);
    write_sources();
    if (options_.build) build_program(staged);
    report_.build_seconds = seconds() - begin;
  }

  // The libraries that the program consists of beside that for inference.
  std::vector<std::string> parts() const {
    std::vector<std::string> all = {"step"};
    for (size_t k = 0; k < training_.further.size(); ++k) all.push_back(further_name(k));
    if (training_.has_evaluation) all.push_back("evaluate");
    return all;
  }

  LibraryReport compile_part(Model model, const std::string& part, const std::vector<TrainingPort>& inputs,
                             const std::vector<TrainingPort>& outputs) {
    LibraryOptions options = options_;
    if (keeps_states_once())
      for (size_t o = 0; o < outputs.size(); ++o)
        for (size_t i = 0; i < inputs.size(); ++i)
          if (outputs[o].source == train::Source::state && inputs[i].source == train::Source::state &&
              inputs[i].index == outputs[o].index)
            options.compile.next_values.push_back({o, i});
    options.name = files_.name + "_" + part;
    options.lower = {};
    options.lower.typical_batch = recipe_.batch;
    options.lower.max_tensor_bytes = options_.lower.max_tensor_bytes;
    options.lower.allow_code = options_.lower.allow_code;
    options.archive_only = options.embed_weights = true;
    options.gradient.reset();
    options.recorded["part"] = part;
    model.path = recipe_.path + " (" + part + ")";
    LibraryReport report = compile_library(model, folder_ + "/" + part, options);
    files_.parts[part] = {report.exchanges > 0, report.overwrites};
    return report;
  }

  // Large states are overwritten by their next values, where a bad step ends the run: nobody needs what was before it.
  bool keeps_states_once() const {
    return report_.state_bytes > train::most_bytes_kept_twice && !recipe_.skip_non_finite && parts_.states.empty();
  }

  // The source that says where states live, where these are not in the host's memory.
  std::string states_file() const { return "src/" + parts_.states.substr(parts_.states.rfind('/') + 1); }

  void write_values(const std::vector<RawParameter>& parameters) {
    InitialFile initial;
    std::map<std::string, int> state_of;
    for (size_t k = 0; k < training_.states.size(); ++k) {
      const TrainingState& state = training_.states[k];
      files_.offsets.push_back(initial.add(state.initial));
      if (state.initializer >= 0) state_of[state.name] = static_cast<int>(k);
    }
    // The inference library takes all its parameters at once: those that are not trained are kept beside the states.
    for (const RawParameter& parameter : parameters) {
      auto found = parameter.name.empty() ? state_of.end() : state_of.find(parameter.name);
      if (found != state_of.end())
        files_.parameters.push_back({found->second, 0, 0});
      else
        files_.parameters.push_back(
            {-1, initial.add(parameter.tensor), static_cast<int64_t>(parameter.tensor.byte_count())});
    }
    files_.initial_bytes = static_cast<int64_t>(initial.bytes().size());
    files_.initial_crc = train::crc32(initial.bytes().data(), initial.bytes().size());
    write_file(folder_ + "/initial.bin", initial.bytes());
    write_template();
    Sha256 program;
    program.update_part(model_.sha256);
    auto add = [&](Model bare, const std::string& name) {
      bare.graph.initializers.clear();
      bare.path = name;
      program.update_part(to_onnx_bytes(bare));
    };
    add(training_.step, files_.name + "_step");
    if (quantized_) program.update_part(to_onnx_bytes(quantized_->trained));  // the ranges that were seen
    for (size_t k = 0; k < training_.further.size(); ++k) {
      add(training_.further[k].model, files_.name + "_" + further_name(k));
      program.update_part(std::to_string(training_.further[k].every));
    }
    files_.program = program.hex();
  }

  void write_template() {
    std::string bytes = to_onnx_bytes(training_.network);
    if (recipe_.algorithm)
      for (const TrainingInfo& info : read_training_info(read_file(model_.path).view(), model_.path))
        bytes = add_training_info(bytes, info);
    const std::vector<int64_t> offsets = raw_data_offsets(bytes);
    METAC_ASSERT(offsets.size() == training_.network.graph.initializers.size(), "the template has ", offsets.size(),
                 " initialisers");
    for (const TrainingState& state : training_.states) {
      const int64_t offset = state.initializer >= 0 && state.role != train::StateRole::frozen
                                 ? offsets[static_cast<size_t>(state.initializer)]
                                 : -1;
      if (offset >= 0 && !recipe_.algorithm)  // an algorithm may begin elsewhere
        METAC_ASSERT(std::memcmp(bytes.data() + offset, state.initial.bytes.get(), state.initial.byte_count()) == 0,
                     "the template has other bytes for ", quoted(state.name));
      files_.onnx_offsets.push_back(offset);
    }
    write_file(folder_ + "/" + files_.name + ".onnx", bytes);
  }

  void write_sources() {
    const std::set<std::string> shared = {"runtime", "runtime/caller", "runtime/files", "runtime/process"};
    for (const auto& [path, text] : embedded_files()) {
      const std::filesystem::path file = folder_ + "/src/" + path;
      const std::string folder = path.substr(0, path.rfind('/'));
      if (path.rfind("runtime/train/", 0) != 0 && path != parts_.states_header && shared.count(folder) == 0) continue;
      std::filesystem::create_directories(file.parent_path());
      write_file(file.string(), text);
    }
    std::map<std::string, std::string> values = {
        {"name", files_.name}, {"version", METAC_VERSION}, {"folders", ""}, {"libraries", ""}};
    for (const std::string& part : parts()) {
      values["folders"] += "add_subdirectory(" + part + " EXCLUDE_FROM_ALL)\n";
      values["libraries"] += files_.name + "_" + part + "_static ";
    }
    main_ = fill_template("templates/project/programs/train.cpp", {});  // the same for all models
    write_file(folder_ + "/src/train.cpp", main_);
    values["languages"] = parts_.languages;
    values["needed"] = parts_.needed;
    values["states"] = parts_.states.empty() ? "" : " " + states_file();
    values["architectures"] = parts_.training_architectures;
    if (!parts_.states.empty())
      write_file(folder_ + "/" + states_file(),
                 fill_template("templates/project/" + parts_.states, {{"name", files_.name}}));
    write_file(folder_ + "/CMakeLists.txt", fill_template("templates/project/cmake/CMakeLists_train.txt", values));
    write_file(folder_ + "/src/train_tables.cpp", train_tables_text(training_, recipe_, files_));
  }

  void build_program(const std::string& staged) {
    const HostCompiler host = find_host_compiler(options_.compiler, find_tool);
    const std::string& compiler = host.program();
    const std::vector<std::string> flags = {"-std=c++17",          "-O2", "-DNDEBUG", "-Wall", "-Wextra", "-Isrc",
                                            "-frandom-seed=train", "-c"};
    // The trainer is the same text in every project: its object file is kept, and made again where compiler or text are
    // others.
    Sha256 key;
    for (const std::string& word : host.compile) key.update_part(word);
    std::vector<std::string> ask = host.compile;
    ask.push_back("--version");
    key.update_part(run(ask, folder_, "the compiler's version")).update_part(main_);
    for (const std::string& f : flags) key.update_part(f);
    for (const auto& [path, text] : embedded_files())
      if (path.rfind("runtime/", 0) == 0) key.update_part(path).update_part(text);
    const std::string name = "training program\n" + key.hex();
    if (std::string kept = ObjectCache::of_user().load(name).value_or(""); !kept.empty()) {
      write_file(folder_ + "/train.o", kept);
    } else {
      compile(host, flags, "train");
      ObjectCache::of_user().store(name, std::string(read_file(folder_ + "/train.o").view()));
    }
    compile(host, flags, "train_tables");
    const std::string n = files_.name;
    std::vector<std::string> argv = host.compile;
    argv.insert(argv.end(), {"-o", "../bin/" + n + "_train", "train.o", "train_tables.o"});
    for (const std::string& part : parts()) argv.push_back(part + "/lib/lib" + n + "_" + part + ".a");
    argv.push_back("../lib/lib" + n + ".a");
    if (!parts_.states.empty()) {
      const std::shared_ptr<const DeviceToolkit> toolkit = parts_.find_toolkit(find_program);
      std::vector<std::string> states = toolkit->compile_flags(compiler);
      states.insert(states.begin(), toolkit->compiler());
      states.insert(states.end(), {"-Isrc", "-c", states_file(), "-o", "train_states.o"});
      run(states, folder_, "compiling " + states_file() + " of the training program");
      argv.push_back("train_states.o");
      std::vector<std::string> vendors;  // whose libraries the three may call; the linker takes what they do call
      if (options_.compile.external.any())
        for (const auto& [name, library] : parts_.vendors) vendors.push_back(name);
      const std::vector<std::string> linked = toolkit->link_flags(vendors);
      argv.push_back("-Wl,--as-needed");
      argv.insert(argv.end(), linked.begin(), linked.end());
    }
    argv.insert(argv.end(), {"-Wl,--build-id=none", "-pthread", "-ldl", "-lm"});
    argv.insert(argv.end(), host.shrink.begin(), host.shrink.end());
    run(argv, folder_, "linking the training program");
    if (!std::filesystem::exists(staged + "/bin/" + n + "_train"))
      fail(compiler, " ended well and wrote no training program");
    for (const char* object : {"/train.o", "/train_tables.o", "/train_states.o"}) std::filesystem::remove(folder_ + object);
  }

  void compile(const HostCompiler& host, std::vector<std::string> flags, const std::string& stem) {
    flags.insert(flags.begin(), host.compile.begin(), host.compile.end());
    flags.insert(flags.end(), {"src/" + stem + ".cpp", "-o", stem + ".o"});
    run(flags, folder_, "compiling " + stem + ".cpp of the training program");
  }

  std::string run(const std::vector<std::string>& argv, const std::string& folder, const std::string& what) const {
    ProcessResult result = run_process(argv, folder, options_.seconds);
    if (!result.good())
      fail(what, ": ", argv[0],
           result.timed_out
               ? " took too long"
               : concat(" failed (status ", result.status, result.signal ? concat(", signal ", result.signal) : "", ")"),
           "\n", result.output.substr(0, 2000));
    return result.output;
  }

  const Model& model_;
  const Recipe& recipe_;
  const QuantizedNetwork* quantized_;
  const LibraryOptions& options_;
  const ProjectParts parts_;  // of the target
  TrainingModel training_;
  TrainingFiles files_;
  TrainingReport report_;
  std::string folder_, main_;
};

std::map<std::string, Tensor> run_once(const Model& model) {
  SessionOptions options;
  options.compile.cpu = cpu_target("native");
  Session session(model, options);
  std::map<std::string, Tensor> outputs;
  for (auto& [name, tensor] : session.run({})) outputs[name] = tensor;
  return outputs;
}

}  // namespace

namespace {

// A network with the parameters that it had before it was exported, in inference form.
Model network_to_train(const Model& model, const Recipe& recipe, std::vector<std::string>& notes) {
  InferenceForm form = inference_form(model);
  if (form.impossible) throw CompileError(*form.impossible);
  const std::vector<std::string> restored = restore_parameters(form.model, recipe.merged);
  notes.insert(notes.end(), restored.begin(), restored.end());
  return std::move(form.model);
}

// As it is differentiated.
Model differentiable(Model network, std::vector<std::string>& notes) {
  if (const int pairs = pairs_to_fake_quantize(network))
    notes.push_back(concat(
        pairs, pairs == 1 ? " pair" : " pairs",
        " of QuantizeLinear and DequantizeLinear have the straight-through derivative; their scales stay as they are"));
  return network;
}

TrainingModel quantized_training_model(const QuantizedNetwork& quantized, const Recipe& recipe, const LowerOptions& lower) {
  TrainingModel training = build_training_model(quantized.trained, recipe, lower, &quantized);
  training.network = quantized.integers;
  std::map<std::string, int> places;
  for (const Initializer& each : training.network.graph.initializers)
    places.emplace(each.name, static_cast<int>(places.size()));
  for (TrainingState& state : training.states) {
    const auto found = places.find(state.name);
    state.initializer = found == places.end() ? -1 : found->second;
  }
  training.notes.insert(training.notes.begin(), quantized.notes.begin(), quantized.notes.end());
  return training;
}

}  // namespace

TrainingModel training_model(const Model& model, const Recipe& recipe, const LowerOptions& lower,
                             const QuantizedNetwork* quantized) {
  if (quantized) return quantized_training_model(*quantized, recipe, lower);
  METAC_ASSERT(!recipe.quantization, "a recipe with quantization, and the network is not quantised");
  require_compilable(model);  // what follows relies on its structure
  if (recipe.algorithm) {
    if (model.path.ends_with(".json"))
      throw CompileError(
          {recipe.algorithm->place, "", "a JSON model has no training algorithm; it takes a loss and an optimizer"});
    const std::vector<TrainingInfo> infos = read_training_info(read_file(model.path).view(), model.path);
    if (infos.size() != 1)
      throw CompileError(
          {recipe.algorithm->place, "", concat("the model has ", infos.size(), " training algorithms, one is wanted")});
    TrainingModel training = training_model_of_algorithm(model, infos[0], recipe, lower, run_once);
    training.network = model;
    return training;
  }
  std::vector<std::string> notes;
  Model network = network_to_train(model, recipe, notes);
  TrainingModel training;
  if (recipe.steps.empty()) {
    Recipe with_adapters = recipe;
    const std::vector<TrainedAdapter> adapters = add_adapters(network, with_adapters);
    const Model trained = differentiable(network, notes);
    if (const std::string note = note_of_rounding(trained); !adapters.empty() && !note.empty()) notes.push_back(note);
    training = build_training_model(trained, with_adapters, lower);
    training.adapters = adapters;
  } else {
    std::map<std::string, Model> networks;
    for (const auto& [name, path] : recipe.networks) {
      const Model read = with_body_parameters(read_model(path));
      require_compilable(read);
      networks[name] = differentiable(network_to_train(read, recipe, notes), notes);
    }
    training = training_model_of_steps(differentiable(network, notes), networks, recipe, lower);
  }
  training.network = std::move(network);
  training.notes.insert(training.notes.begin(), notes.begin(), notes.end());
  return training;
}

TrainingReport compile_training(const Model& model, const Recipe& recipe, const std::string& folder,
                                const LibraryOptions& options, const QuantizedNetwork* quantized) {
  try {
    return TrainingCompiler(model, recipe, options, quantized).run(folder);
  } catch (CompileError& error) {
    if (!error.diagnostic.file.empty()) throw;
    throw CompileError({model.path, error.diagnostic.node, error.diagnostic.message});
  }
}

}  // namespace metac
