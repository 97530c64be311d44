// The command-line program of a library: tensors come from .npy, .npz and .pb files and go to .npy files. For all models the
// same text, which a project of its own compiles (src/run_program.cpp); the library's functions come by a table.
#pragma once
#include <filesystem>

#include "../files/json_text.h"
#include "../files/tensor_summary.h"
#include "inputs.h"
#include "times.h"

namespace METAC_RUNTIME_NAMESPACE {

inline const char usage[] =
    "usage: %s_run --input [NAME=]FILE.npy|FILE.npz|FILE.pb|random ... [--shape NAME=1x3x224x224]... [--dim NAME=8]...\n"
    "\n"
    "  --input NAME=FILE     an input; without NAME= they are taken in the model's order. NAME=random: numbers that are\n"
    "                        the same every time; random alone: for all inputs that are not given\n"
    "  --shape NAME=1x3x8x8  the shape of random numbers, where the model leaves dims open\n"
    "  --dim NAME=8          the same by the name of an open dim, for all inputs that have it\n"
    "  --output-dir DIR      each output to DIR/NAME.npy; otherwise a summary of each is printed\n"
    "  --numbered            DIR/output_0.npy, DIR/output_1.npy, ... instead\n"
    "  --threads N           threads of a run; 0: one per CPU (0)\n"
    "  --pin                 threads stay on their CPU\n"
    "  --cpu NAME            the code for this instruction set of those that --info lists; otherwise the best one\n"
    "  --weights FILE        instead of those beside the library. They are read and looked through for damage:\n"
    "  --map-weights         maps the file, which nobody may cut or write into meanwhile\n"
    "  --copy-weights        reads all of it at once, for this context alone\n"
    "  --unchecked-weights   does not look\n"
    "  --bench [SECONDS]     min, median, p90 and p99 of the time of one run (3); inputs that are not given are random\n"
    "  --profile             as --bench, and the time of each step\n"
    "  --json                what is printed as JSON\n"
    "  --info                inputs, outputs, instruction sets, memory\n"
    "  --version, --help\n"
    "\n"
    "Exit status: 0 good, 1 files or numbers are at fault, 2 wrong usage.\n";

inline void print_outputs_json(const std::vector<std::string>& files) {
  std::printf("{\"outputs\": [");
  for (int i = 0; i < library->outputs; ++i) {
    const LibraryPort* port = library->output(i);
    const metac_model_tensor& tensor = library.result(i);
    const Summary s = summary_of(type_of(port), tensor.data, tensor.dims, tensor.rank);
    std::printf("%s{\"name\": %s, \"dtype\": \"%s\", \"shape\": [", i > 0 ? ", " : "", json_string(port->name).c_str(),
                dtype_name(type_of(port)));
    for (int32_t d = 0; d < tensor.rank; ++d)
      std::printf("%s%lld", d > 0 ? ", " : "", static_cast<long long>(tensor.dims[d]));
    std::printf("]");
    if (s.greatest >= 0)
      std::printf(", \"min\": %s, \"max\": %s, \"mean\": %s",
                  json_number(number_at(type_of(port), tensor.data, s.least)).c_str(),
                  json_number(number_at(type_of(port), tensor.data, s.greatest)).c_str(), json_number(s.mean).c_str());
    if (s.nan > 0) std::printf(", \"nan\": %lld", static_cast<long long>(s.nan));
    if (!files[static_cast<size_t>(i)].empty())
      std::printf(", \"file\": %s", json_string(files[static_cast<size_t>(i)]).c_str());
    std::printf("}");
  }
  std::printf("]}\n");
}

inline void summarise(const LibraryPort* port, const metac_model_tensor& tensor) {
  const Summary s = summary_of(type_of(port), tensor.data, tensor.dims, tensor.rank);
  std::printf("%s  %s %s", shown(port->name).c_str(), dtype_name(type_of(port)),
              dims_text(tensor.dims, tensor.rank).c_str());
  if (s.greatest >= 0)
    std::printf("  greatest %.6g at %lld", number_at(type_of(port), tensor.data, s.greatest),
                static_cast<long long>(s.greatest));
  if (s.nan > 0) std::printf("  %lld NaN", static_cast<long long>(s.nan));
  if (s.greatest >= 0 || s.nan > 0) {
    std::printf("  first");
    for (int64_t i = 0; i < s.count && i < 5; ++i) std::printf(" %.6g", number_at(type_of(port), tensor.data, i));
  }
  std::printf("\n");
}

inline void print_info() {
  std::printf("%s, model %s\n", library->version(), library->model_hash());
  for (int i = 0; const LibraryPort* port = library->input(i); ++i)
    std::printf("input  %s  %s %s\n", shown(port->name).c_str(), dtype_name(type_of(port)), dims_text(port).c_str());
  for (int i = 0; const LibraryPort* port = library->output(i); ++i)
    std::printf("output %s  %s %s\n", shown(port->name).c_str(), dtype_name(type_of(port)), dims_text(port).c_str());
  std::printf("code for");
  for (int i = 0; const char* cpu = library->cpu(i); ++i) std::printf("%s %s", i > 0 ? "," : "", cpu);
  bool open = false;
  for (int i = 0; const LibraryPort* port = library->input(i); ++i)
    for (int32_t d = 0; d < port->rank; ++d) open = open || port->dims[d] < 0;
  std::printf("\nworking memory planned ahead: %lld bytes%s\n", static_cast<long long>(library->static_arena_bytes()),
              open ? ", and what the shapes of a run ask for" : "");
}

inline std::string parse(int count, char** values, Arguments* a) {
  ProgramOptions line(count, values,
                      {"--input", "--shape", "--dim", "--output-dir", "--weights", "--cpu", "--threads", "--pin",
                       "--copy-weights", "--map-weights", "--unchecked-weights", "--numbered", "--profile", "--json",
                       "--info", "--bench", "--help", "--version"});
  while (line.next()) {
    if (line.is("--input"))
      a->inputs.push_back(line.text());
    else if (line.is("--shape"))
      a->shapes.push_back(line.text());
    else if (line.is("--dim"))
      a->dims.push_back(line.text());
    else if (line.is("--output-dir"))
      a->output_dir = line.text();
    else if (line.is("--weights"))
      a->weights = line.text();
    else if (line.is("--cpu"))
      a->cpu = line.text();
    else if (line.is("--threads"))
      a->threads = static_cast<int>(line.whole(0, 4096));
    else if (line.is("--pin"))
      a->pin = true;
    else if (line.is("--copy-weights"))
      a->copy_weights = true;
    else if (line.is("--map-weights"))
      a->map_weights = true;
    else if (line.is("--unchecked-weights"))
      a->unchecked_weights = true;
    else if (line.is("--numbered"))
      a->numbered = true;
    else if (line.is("--profile"))
      a->profile = true;
    else if (line.is("--json"))
      a->json = true;
    else if (line.is("--info"))
      a->info = true;
    else if (line.is("--help") || line.is("-h"))
      a->help = true;
    else if (line.is("--version"))
      a->version = true;
    else if (line.is("--bench")) {
      a->bench = true;
      if (line.number_follows()) a->seconds = line.positive();
    } else
      line.unknown();
  }
  if (a->numbered && a->output_dir.empty()) line.wrong("--numbered is for --output-dir");
  return line.error();
}

inline int run(const Arguments& arguments) {
  Times times;
  const int64_t begin = now_ns();
  LibrarySettings settings = LibrarySettings();
  settings.weights = arguments.weights.empty() ? nullptr : arguments.weights.c_str();
  settings.cpu = arguments.cpu.empty() ? nullptr : arguments.cpu.c_str();
  settings.threads = arguments.threads;
  settings.pin = arguments.pin;
  settings.copy_weights = arguments.copy_weights;
  settings.map_weights = arguments.map_weights;
  settings.unchecked_weights = arguments.unchecked_weights;
  if (!library.create(settings)) return fault(library.last_error());
  std::vector<FileTensor> tensors;
  std::string error = make_inputs(arguments, &tensors);
  if (!error.empty()) return fault(error);
  static char nothing[64];
  for (size_t i = 0; i < tensors.size(); ++i) {
    FileTensor& tensor = tensors[i];
    if (tensor.dims.size() > METAC_MODEL_MAX_RANK)
      return fault("input " + std::to_string(i) + " has more dims than a library takes");
    void* const data = tensor.bytes.empty() ? nothing : static_cast<void*>(tensor.bytes.data());
    library.give(static_cast<int32_t>(i), data, static_cast<int64_t>(tensor.bytes.size()), tensor.dims);
  }
  const int64_t start = now_ns();
  if (!library.run()) return fault(library.last_error());
  times.ready = static_cast<double>(start - begin) * 1e-6;
  times.first = static_cast<double>(now_ns() - start) * 1e-6;
  std::error_code made;
  if (!arguments.output_dir.empty()) std::filesystem::create_directories(arguments.output_dir, made);
  if (made) return fault("cannot make the folder " + arguments.output_dir + ": " + made.message());
  std::vector<std::string> files(static_cast<size_t>(library->outputs));
  for (int i = 0; i < library->outputs; ++i) {
    const metac_model_tensor& tensor = library.result(i);
    const LibraryPort* port = library->output(i);
    std::string& file = files[static_cast<size_t>(i)];
    if (arguments.output_dir.empty()) {
      if (!arguments.timed() && !arguments.json) summarise(port, tensor);
      continue;
    }
    file = arguments.output_dir + "/" + output_file(arguments.numbered ? "" : port->name, i);
    error = write_npy(file, type_of(port), tensor.dims, tensor.rank, tensor.data, tensor.bytes);
    if (!error.empty()) return fault(error);
  }
  if (!arguments.timed()) {
    if (arguments.json) print_outputs_json(files);
    return 0;
  }
  if (!time_runs(5, arguments.seconds, &times.runs)) return fault(library.last_error());
  Profile profile;
  if ((arguments.profile || arguments.json) && !profile_runs(arguments.profile ? arguments.seconds / 2 : 0, &profile))
    return fault(library.last_error());
  if (arguments.json) return print_json(times, profile, arguments.profile), 0;
  print_times(times);
  if (arguments.profile) print_profile(profile);
  return 0;
}

// Not inline: one source includes this.
int run_main(const metac_model& model, int count, char** values) {
  library = Library(&model);
  Arguments arguments;
  const std::string error = parse(count, values, &arguments);
  if (!error.empty()) return fault(error + "\n" + library->name + "_run --help lists the options", 2);
  if (arguments.help) return std::printf(usage, library->name), 0;
  if (arguments.version)
    return std::printf("%s_run, %s, model %s\n", library->name, library->version(), library->model_hash()), 0;
  if (arguments.info) return print_info(), 0;
  const int status = run(arguments);
  library.destroy();
  return status;
}

}  // namespace METAC_RUNTIME_NAMESPACE
