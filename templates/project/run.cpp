// @name@_run: the model from the command line. Tensors come from .npy, .npz and .pb files and go to .npy files.
#define METAC_RUNTIME_NAMESPACE @name@_run_program
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>

#include "../include/@name@.h"
#include "runtime/json_text.h"
#include "runtime/program_options.h"
#include "runtime/tensor_proto.h"
#include "runtime/tensor_summary.h"
#include "runtime/thread_pool.h"

using namespace METAC_RUNTIME_NAMESPACE;

namespace {

const char usage[] =
    "usage: @name@_run --input [NAME=]FILE.npy|FILE.npz|FILE.pb|random ... [--shape NAME=1x3x224x224]...\n"
    "\n"
    "  --input NAME=FILE     an input; without NAME= they are taken in the model's order. NAME=random: numbers that are the\n"
    "                        same every time; random alone: for all inputs that are not given\n"
    "  --shape NAME=1x3x8x8  the shape of random numbers, where the model leaves dims open\n"
    "  --output-dir DIR      each output to DIR/NAME.npy; otherwise a summary of each is printed\n"
    "  --numbered            DIR/output_0.npy, DIR/output_1.npy, ... instead\n"
    "  --threads N           threads of a run; 0: one per CPU (0)\n"
    "  --pin                 threads stay on their CPU\n"
    "  --cpu NAME            the code for this instruction set of those that --info lists; otherwise the best that runs here\n"
    "  --weights FILE        instead of those beside the library. They are mapped and looked through for damage:\n"
    "  --copy-weights        reads them into memory instead\n"
    "  --unchecked-weights   does not look\n"
    "  --bench [SECONDS]     min, median, p90 and p99 of the time of one run (3); inputs that are not given are random\n"
    "  --profile             as --bench, and the time of each step\n"
    "  --json                what is printed as JSON\n"
    "  --info                inputs, outputs, instruction sets, memory\n"
    "  --version, --help\n"
    "\n"
    "Exit status: 0 good, 1 files or numbers are at fault, 2 wrong usage.\n";

struct Arguments {
  std::vector<std::string> inputs, shapes;
  std::string output_dir, weights, cpu;
  int threads = 0, weights_flags = 0;
  bool pin = false, numbered = false, bench = false, profile = false, json = false, info = false, help = false, version = false;
  double seconds = 3;

  bool timed() const { return bench || profile; }
};

int fault(const std::string& message, int status = 1) {
  std::fprintf(stderr, "@name@_run: %s\n", message.c_str());
  return status;
}

// Model text on a terminal: control characters do not get there.
std::string shown(const char* name) {
  std::string text;
  for (const char* c = name; *c != 0 && text.size() < 120; ++c) text += static_cast<unsigned char>(*c) < 32 || *c == 127 ? '?' : *c;
  return text;
}

// A file name for an output: its own name where that is plain, else its number.
std::string output_file(const char* name, int index) {
  const std::string text = name;
  bool plain = !text.empty() && text.size() <= 80 && text[0] != '.';
  for (const char c : text) plain = plain && (std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.');
  return (plain ? text : "output_" + std::to_string(index)) + ".npy";
}

std::string dims_text(const int64_t* dims, int32_t rank) {
  std::string text;
  for (int32_t d = 0; d < rank; ++d) text += (d > 0 ? "x" : "") + (dims[d] < 0 ? std::string("?") : std::to_string(dims[d]));
  return rank == 0 ? "scalar" : text;
}

// As the model declares it, open dims by their names.
std::string dims_text(const @name@_port* port) {
  std::string text;
  for (int32_t d = 0; d < port->rank; ++d) text += (d > 0 ? "x" : "") + shown(port->dim_names[d]);
  return port->rank == 0 ? "scalar" : text;
}

// Dims for --shape: the open ones are 1.
std::string example_of(const @name@_port* port) {
  std::string text;
  for (int32_t d = 0; d < port->rank; ++d) text += (d > 0 ? "x" : "") + std::to_string(port->dims[d] < 0 ? 1 : port->dims[d]);
  return text;
}

ScalarType type_of(const @name@_port* port) { return static_cast<ScalarType>(port->dtype); }

// The port that "NAME=VALUE" speaks of (the last '=' counts: names may hold some), and VALUE. -1: no such input.
int find_input(const std::string& argument, std::string* value) {
  const size_t equals = argument.rfind('=');
  if (equals == std::string::npos) return -1;
  *value = argument.substr(equals + 1);
  for (int i = 0; @name@_input(i) != nullptr; ++i)
    if (argument.compare(0, equals, @name@_input(i)->name) == 0) return i;
  return -1;
}

std::string no_such_input(const std::string& argument) {
  std::vector<std::string> names;
  std::string list;
  for (int i = 0; @name@_input(i) != nullptr; ++i) {
    names.push_back(shown(@name@_input(i)->name));
    list += (i > 0 ? ", \"" : "\"") + names.back() + "\"";
  }
  const std::string name = argument.substr(0, argument.rfind('='));
  return "the model has no input \"" + name + "\"" + did_you_mean(name, names) + (list.empty() ? "" : " (its inputs: " + list + ")");
}

bool parse_dims(const std::string& text, std::vector<int64_t>* dims) {
  dims->clear();
  const char* at = text.c_str();
  while (*at != 0 && text != "scalar") {
    char* next = nullptr;
    const long long dim = std::strtoll(at, &next, 10);
    if (next == at || dim < 0) return false;
    dims->push_back(dim);
    at = next;
    if (*at == 'x' && at[1] != 0) ++at;
    else if (*at != 0) return false;
  }
  return true;
}

// Which file each input comes from: "random" where numbers are to be made, "" where it was not given.
std::string files_of_inputs(const Arguments& arguments, std::vector<std::string>* files) {
  files->assign(@NAME@_INPUTS, "");
  size_t next = 0;
  bool rest = arguments.timed();  // is random
  for (const std::string& argument : arguments.inputs) {
    std::string value;
    int index = find_input(argument, &value);
    std::error_code ignored;
    if (index < 0 && argument == "random") {
      rest = true;
      continue;
    }
    if (index < 0) {
      if (argument.find('=') != std::string::npos && !std::filesystem::exists(argument, ignored)) return "--input " + argument + ": " + no_such_input(argument);
      if (next >= files->size()) return "--input " + argument + ": the model has " + std::to_string(files->size()) + " inputs";
      index = static_cast<int>(next++);
      value = argument;
    }
    std::string& file = (*files)[static_cast<size_t>(index)];
    if (!file.empty()) return "--input " + argument + ": input \"" + shown(@name@_input(index)->name) + "\" is given twice";
    file = value;
  }
  for (std::string& file : *files)
    if (file.empty() && rest) file = "random";
  return "";
}

std::string make_inputs(const Arguments& arguments, std::vector<FileTensor>* tensors) {
  tensors->assign(@NAME@_INPUTS, FileTensor());
  std::vector<std::string> files;
  std::vector<std::vector<int64_t>> shapes(@NAME@_INPUTS);
  std::vector<bool> shaped(@NAME@_INPUTS);
  const std::string wrong = files_of_inputs(arguments, &files);
  if (!wrong.empty()) return wrong;
  for (const std::string& argument : arguments.shapes) {
    std::string value;
    const int index = find_input(argument, &value);
    if (index < 0) return "--shape " + argument + ": " + (argument.find('=') == std::string::npos ? "expected NAME=1x3x224x224" : no_such_input(argument));
    if (!parse_dims(value, &shapes[static_cast<size_t>(index)])) return "--shape " + argument + ": expected dims such as 1x3x224x224";
    if (files[static_cast<size_t>(index)] != "random" && !files[static_cast<size_t>(index)].empty()) return "--shape " + argument + ": the input comes from a file, which has its own shape";
    shaped[static_cast<size_t>(index)] = true;
  }
  for (int i = 0; i < @NAME@_INPUTS; ++i) {
    const @name@_port* port = @name@_input(i);
    FileTensor& tensor = (*tensors)[static_cast<size_t>(i)];
    const std::string& file = files[static_cast<size_t>(i)];
    if (file.empty()) {
      const std::string name = shown(port->name);
      return "input \"" + name + "\" (" + dtype_name(type_of(port)) + " " + dims_text(port) + ") is not given: --input " + name + "=FILE, or --input " + name + "=random";
    }
    if (file != "random") {
      const std::string error = read_tensor(file, port->name, &tensor);
      if (!error.empty()) return error;
      const bool same_bits = type_of(port) == ScalarType::bf16 && (tensor.dtype == ScalarType::u16 || tensor.dtype == ScalarType::f16);
      if (tensor.dtype != type_of(port) && !same_bits)
        return file + ": input \"" + shown(port->name) + "\" is " + dtype_name(type_of(port)) + ", the file has " + dtype_name(tensor.dtype);
      continue;
    }
    tensor.dtype = type_of(port);
    if (shaped[static_cast<size_t>(i)]) tensor.dims = shapes[static_cast<size_t>(i)];
    else tensor.dims.assign(port->dims, port->dims + port->rank);
    for (int64_t& dim : tensor.dims)
      if (dim < 0) return "input \"" + shown(port->name) + "\" has open dims (" + dims_text(port) + "): random numbers need --shape " + shown(port->name) + "=" + example_of(port);
    const int64_t bytes = bytes_of_dims(tensor.dtype, tensor.dims);
    if (bytes < 0 || bytes > most_bytes) return "input \"" + shown(port->name) + "\": dims overflow";
    tensor.bytes.resize(static_cast<size_t>(bytes));
    fill_random(tensor, static_cast<uint64_t>(i));
  }
  return "";
}

void print_outputs_json(const std::vector<@name@_tensor>& outputs, const std::vector<std::string>& files) {
  std::printf("{\"outputs\": [");
  for (int i = 0; i < @NAME@_OUTPUTS; ++i) {
    const @name@_port* port = @name@_output(i);
    const @name@_tensor& tensor = outputs[static_cast<size_t>(i)];
    const Summary s = summary_of(type_of(port), tensor.data, tensor.dims, tensor.rank);
    std::printf("%s{\"name\": %s, \"dtype\": \"%s\", \"shape\": [", i > 0 ? ", " : "", json_string(port->name).c_str(), dtype_name(type_of(port)));
    for (int32_t d = 0; d < tensor.rank; ++d) std::printf("%s%lld", d > 0 ? ", " : "", static_cast<long long>(tensor.dims[d]));
    std::printf("]");
    if (s.greatest >= 0)
      std::printf(", \"min\": %s, \"max\": %s, \"mean\": %s", json_number(number_at(type_of(port), tensor.data, s.least)).c_str(),
                  json_number(number_at(type_of(port), tensor.data, s.greatest)).c_str(), json_number(s.mean).c_str());
    if (s.nan > 0) std::printf(", \"nan\": %lld", static_cast<long long>(s.nan));
    if (!files[static_cast<size_t>(i)].empty()) std::printf(", \"file\": %s", json_string(files[static_cast<size_t>(i)]).c_str());
    std::printf("}");
  }
  std::printf("]}\n");
}

void summarise(const @name@_port* port, const @name@_tensor& tensor) {
  const Summary s = summary_of(type_of(port), tensor.data, tensor.dims, tensor.rank);
  std::printf("%s  %s %s", shown(port->name).c_str(), dtype_name(type_of(port)), dims_text(tensor.dims, tensor.rank).c_str());
  if (s.greatest >= 0) std::printf("  greatest %.6g at %lld", number_at(type_of(port), tensor.data, s.greatest), static_cast<long long>(s.greatest));
  if (s.nan > 0) std::printf("  %lld NaN", static_cast<long long>(s.nan));
  if (s.greatest >= 0 || s.nan > 0) {
    std::printf("  first");
    for (int64_t i = 0; i < s.count && i < 5; ++i) std::printf(" %.6g", number_at(type_of(port), tensor.data, i));
  }
  std::printf("\n");
}

void print_info() {
  std::printf("%s, model %s\n", @name@_version(), @name@_model_hash());
  for (int i = 0; const @name@_port* port = @name@_input(i); ++i)
    std::printf("input  %s  %s %s\n", shown(port->name).c_str(), dtype_name(type_of(port)), dims_text(port).c_str());
  for (int i = 0; const @name@_port* port = @name@_output(i); ++i)
    std::printf("output %s  %s %s\n", shown(port->name).c_str(), dtype_name(type_of(port)), dims_text(port).c_str());
  std::printf("code for");
  for (int i = 0; const char* cpu = @name@_cpu(i); ++i) std::printf("%s %s", i > 0 ? "," : "", cpu);
  bool open = false;
  for (int i = 0; const @name@_port* port = @name@_input(i); ++i)
    for (int32_t d = 0; d < port->rank; ++d) open = open || port->dims[d] < 0;
  std::printf("\nworking memory planned ahead: %lld bytes%s\n", static_cast<long long>(@name@_static_arena_bytes()), open ? ", and what the shapes of a run ask for" : "");
}

struct Times {
  std::vector<double> runs;           // ms, ascending
  double ready = 0, first = 0;        // ms from the start to the first run, and of it
};

double percentile(const std::vector<double>& runs, size_t percent) { return runs[std::min(runs.size() - 1, runs.size() * percent / 100)]; }

// At least `least` runs, and for so long.
bool time_runs(@name@_context* context, const std::vector<@name@_tensor>& inputs, std::vector<@name@_tensor>& outputs, size_t least, double seconds, std::vector<double>* runs) {
  const int64_t begin = now_ns();
  const bool terminal = isatty(2) != 0;
  int64_t told = begin;
  while (runs->size() < least || (static_cast<double>(now_ns() - begin) < seconds * 1e9 && runs->size() < 1000000)) {
    for (@name@_tensor& output : outputs) output = @name@_tensor();
    const int64_t start = now_ns();
    if (@name@_run(context, inputs.data(), @NAME@_INPUTS, outputs.data(), @NAME@_OUTPUTS) != @NAME@_OK) return false;
    const int64_t end = now_ns();
    runs->push_back(static_cast<double>(end - start) * 1e-6);
    if (terminal && end - told > 500000000) {
      told = end;
      std::fprintf(stderr, "\r%zu runs, %.0f of %.0f s", runs->size(), static_cast<double>(end - begin) * 1e-9, seconds);
    }
  }
  if (terminal) std::fprintf(stderr, "\r%*s\r", 40, "");
  std::sort(runs->begin(), runs->end());
  return true;
}

struct ProfileRow { std::string name; int64_t runs, ns; double operations, bytes; };

// The steps that ran, those of one name together, the longest first.
std::vector<ProfileRow> profile_rows(const @name@_context* context) {
  std::map<std::string, ProfileRow> by_name;
  int64_t runs = 0, ns = 0;
  for (int i = 0; const char* name = @name@_profile_row(context, i, &runs, &ns); ++i) {
    if (runs == 0) continue;
    double operations = -1, bytes = -1;
    @name@_profile_work(context, i, &operations, &bytes);
    ProfileRow& row = by_name.emplace(name, ProfileRow{name, 0, 0, 0, 0}).first->second;
    row.runs += runs;
    row.ns += ns;
    row.operations = row.operations < 0 || operations < 0 ? -1 : row.operations + operations;
    row.bytes = row.bytes < 0 || bytes < 0 ? -1 : row.bytes + bytes;
  }
  std::vector<ProfileRow> rows;
  for (const auto& entry : by_name) rows.push_back(entry.second);
  std::sort(rows.begin(), rows.end(), [](const ProfileRow& a, const ProfileRow& b) { return a.ns != b.ns ? a.ns > b.ns : a.name < b.name; });
  return rows;
}

// Of runs that are profiled, which are other runs than those timed: what the first did, and all of them.
struct Profile {
  std::vector<ProfileRow> first, all;
  std::vector<double> runs;           // ms, ascending
};

bool profile_runs(@name@_context* context, const std::vector<@name@_tensor>& inputs, std::vector<@name@_tensor>& outputs, double seconds, Profile* profile) {
  if (@name@_profile(context, 1) != @NAME@_OK || !time_runs(context, inputs, outputs, 1, 0, &profile->runs)) return false;
  profile->first = profile->all = profile_rows(context);
  if (seconds > 0 && !time_runs(context, inputs, outputs, 10, seconds, &profile->runs)) return false;
  profile->all = profile_rows(context);
  return @name@_profile(context, 0) == @NAME@_OK;
}

void print_times(const Times& times) {
  std::printf("min %.3f ms  median %.3f ms  p90 %.3f ms  p99 %.3f ms  (%zu runs; ready in %.1f ms, first run %.3f ms)\n", times.runs.front(), percentile(times.runs, 50),
              percentile(times.runs, 90), percentile(times.runs, 99), times.runs.size(), times.ready, times.first);
}

// "-" for what is not known or nothing.
std::string rate_text(double amount, int64_t ns) {
  char text[32] = "-";
  const double rate = ns > 0 ? amount / static_cast<double>(ns) : 0;
  if (rate > 0) std::snprintf(text, sizeof text, rate < 0.1 ? "%.1g" : "%.1f", rate);
  return text;
}

void print_profile(const Profile& profile) {
  const double runs = static_cast<double>(profile.runs.size());
  int64_t total = 0;
  for (const ProfileRow& row : profile.all) total += row.ns;
  std::printf("profile of %zu runs: median %.3f ms, steps %.3f ms in the mean\n%10s %6s %8s %8s %8s  step\n", profile.runs.size(), percentile(profile.runs, 50),
              static_cast<double>(total) * 1e-6 / runs, "us/run", "share", "launches", "GFLOP/s", "GB/s");
  for (const ProfileRow& row : profile.all)
    std::printf("%10.1f %5.1f%% %8.4g %8s %8s  %s\n", static_cast<double>(row.ns) * 1e-3 / runs, 100.0 * static_cast<double>(row.ns) / static_cast<double>(std::max<int64_t>(1, total)),
                static_cast<double>(row.runs) / runs, rate_text(row.operations, row.ns).c_str(), rate_text(row.bytes, row.ns).c_str(), row.name.c_str());
}

// Names of steps are the compiler's words: letters, digits and underscores.
void print_rows(const char* key, const std::vector<ProfileRow>& rows) {
  std::printf("\"%s\": [", key);
  const char* comma = "";
  for (const ProfileRow& row : rows) {
    std::printf("%s{\"name\": \"%s\", \"runs\": %lld, \"ns\": %lld, \"operations\": %.17g, \"bytes\": %.17g}", comma, row.name.c_str(), static_cast<long long>(row.runs), static_cast<long long>(row.ns),
                row.operations, row.bytes);
    comma = ", ";
  }
  std::printf("]");
}

void print_json(const Times& times, const @name@_context* context, const Profile& profile, bool with_profile) {
  rusage usage = rusage();
  getrusage(RUSAGE_SELF, &usage);
  std::printf("{\"cpu\": \"%s\", \"runs\": %zu, \"min_ms\": %.6f, \"median_ms\": %.6f, \"p90_ms\": %.6f, \"p99_ms\": %.6f, \"ready_ms\": %.6f, \"first_ms\": %.6f, "
              "\"peak_resident_bytes\": %lld, \"arena_bytes\": %lld, \"held_bytes\": %lld, ", @name@_cpu_of(context), times.runs.size(), times.runs.front(), percentile(times.runs, 50), percentile(times.runs, 90),
              percentile(times.runs, 99), times.ready, times.first, static_cast<long long>(usage.ru_maxrss) * 1024, static_cast<long long>(@name@_arena_bytes(context)), static_cast<long long>(@name@_held_bytes(context)));
  print_rows("steps", profile.first);
  std::printf(", \"profiled_runs\": %zu, \"profiled_median_ms\": %.6f, ", profile.runs.size(), percentile(profile.runs, 50));
  print_rows("profile", with_profile ? profile.all : std::vector<ProfileRow>());
  std::printf("}\n");
}

std::string parse(int count, char** values, Arguments* a) {
  ProgramOptions line(count, values, {"--input", "--shape", "--output-dir", "--weights", "--cpu", "--threads", "--pin", "--copy-weights", "--unchecked-weights", "--numbered",
                                      "--profile", "--json", "--info", "--bench", "--help", "--version"});
  while (line.next()) {
    if (line.is("--input")) a->inputs.push_back(line.text());
    else if (line.is("--shape")) a->shapes.push_back(line.text());
    else if (line.is("--output-dir")) a->output_dir = line.text();
    else if (line.is("--weights")) a->weights = line.text();
    else if (line.is("--cpu")) a->cpu = line.text();
    else if (line.is("--threads")) a->threads = static_cast<int>(line.whole(0, 4096));
    else if (line.is("--pin")) a->pin = true;
    else if (line.is("--copy-weights")) a->weights_flags |= @NAME@_WEIGHTS_COPY;
    else if (line.is("--unchecked-weights")) a->weights_flags |= @NAME@_WEIGHTS_UNCHECKED;
    else if (line.is("--numbered")) a->numbered = true;
    else if (line.is("--profile")) a->profile = true;
    else if (line.is("--json")) a->json = true;
    else if (line.is("--info")) a->info = true;
    else if (line.is("--help") || line.is("-h")) a->help = true;
    else if (line.is("--version")) a->version = true;
    else if (line.is("--bench")) {
      a->bench = true;
      if (line.number_follows()) a->seconds = line.positive();
    } else line.unknown();
  }
  if (a->numbered && a->output_dir.empty()) line.wrong("--numbered is for --output-dir");
  return line.error();
}

int run(const Arguments& arguments, @name@_context** context) {
  Times times;
  const int64_t begin = now_ns();
  @name@_options options = @name@_options();
  options.weights = arguments.weights.empty() ? nullptr : arguments.weights.c_str();
  options.cpu = arguments.cpu.empty() ? nullptr : arguments.cpu.c_str();
  options.threads = arguments.threads;
  options.weights_flags = arguments.weights_flags;
  options.pin = arguments.pin;
  if (@name@_create(&options, context) != @NAME@_OK) return fault(@name@_last_error(*context));
  std::vector<FileTensor> tensors;
  std::string error = make_inputs(arguments, &tensors);
  if (!error.empty()) return fault(error);
  std::vector<@name@_tensor> inputs(@NAME@_INPUTS, @name@_tensor()), outputs(@NAME@_OUTPUTS, @name@_tensor());
  static char nothing[64];
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].dims.size() > @NAME@_MAX_RANK) return fault("input " + std::to_string(i) + " has more dims than the model");
    inputs[i].data = tensors[i].bytes.empty() ? nothing : tensors[i].bytes.data();
    inputs[i].bytes = static_cast<int64_t>(tensors[i].bytes.size());
    inputs[i].rank = static_cast<int32_t>(tensors[i].dims.size());
    for (size_t d = 0; d < tensors[i].dims.size(); ++d) inputs[i].dims[d] = tensors[i].dims[d];
  }
  const int64_t start = now_ns();
  if (@name@_run(*context, inputs.data(), @NAME@_INPUTS, outputs.data(), @NAME@_OUTPUTS) != @NAME@_OK) return fault(@name@_last_error(*context));
  times.ready = static_cast<double>(start - begin) * 1e-6;
  times.first = static_cast<double>(now_ns() - start) * 1e-6;
  std::error_code made;
  if (!arguments.output_dir.empty()) std::filesystem::create_directories(arguments.output_dir, made);
  if (made) return fault("cannot make the folder " + arguments.output_dir + ": " + made.message());
  std::vector<std::string> files(@NAME@_OUTPUTS);
  for (int i = 0; i < @NAME@_OUTPUTS; ++i) {
    const @name@_tensor& tensor = outputs[static_cast<size_t>(i)];
    const @name@_port* port = @name@_output(i);
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
    if (arguments.json) print_outputs_json(outputs, files);
    return 0;
  }
  if (!time_runs(*context, inputs, outputs, 5, arguments.seconds, &times.runs)) return fault(@name@_last_error(*context));
  Profile profile;
  if ((arguments.profile || arguments.json) && !profile_runs(*context, inputs, outputs, arguments.profile ? arguments.seconds / 2 : 0, &profile)) return fault(@name@_last_error(*context));
  if (arguments.json) return print_json(times, *context, profile, arguments.profile), 0;
  print_times(times);
  if (arguments.profile) print_profile(profile);
  return 0;
}

}  // namespace

int main(int count, char** values) {
  Arguments arguments;
  const std::string error = parse(count, values, &arguments);
  if (!error.empty()) return fault(error + "\n@name@_run --help lists the options", 2);
  if (arguments.help) return std::fputs(usage, stdout), 0;
  if (arguments.version) return std::printf("@name@_run, %s, model %s\n", @name@_version(), @name@_model_hash()), 0;
  if (arguments.info) return print_info(), 0;
  @name@_context* context = nullptr;
  const int status = run(arguments, &context);
  @name@_destroy(context);
  return status;
}
