// metac bench: how long one run takes, where the time goes, and what the machine could do at best.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "compiler/api/bench/bench_baseline.h"
#include "compiler/api/bench/bench_folder.h"
#include "compiler/api/bench/bench_pair.h"
#include "compiler/api/bench/machine_costs.h"
#include "compiler/api/child_process.h"
#include "compiler/api/compiled_folder.h"
#include "compiler/driver/command.h"
#include "compiler/driver/options/model_inputs.h"
#include "compiler/driver/options/model_options.h"
#include "compiler/support/file_system.h"
#include "frontends/read_model.h"

namespace metac {
namespace {

struct BenchArguments : ModelOptions {
  std::vector<std::string> inputs;
  std::string baseline, against;
  bool json = false, profile = false, peak = false;
  double seconds = 3, threshold = -1;  // in percent; below 0: the default
  int processes = 20;
};

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

BenchResult bench_model(const BenchArguments& o) {
  double begin = now_ms();
  const Model model = read_model(o.model);
  o.note_kept(model);
  Session session(model, o.session());
  std::map<std::string, Tensor> inputs = gather_inputs(session.model(), o.inputs, o.shapes, o.dims, true);
  std::vector<Tensor> ordered;
  JitProgram& program = session.program_for(inputs, &ordered);
  double ready = now_ms();
  program.run_only(ordered);
  double first = now_ms();
  std::vector<double> times;
  program.run_only(ordered);
  for (double start = now_ms(), end = start + 1e3 * o.seconds;
       (start < end && times.size() < 1'000'000) || times.size() < 5;) {
    program.run_only(ordered);
    double stop = now_ms();
    times.push_back(stop - start);
    start = stop;
  }
  BenchResult result;
  result.times = summarise_times(std::move(times));
  result.times.ready_ms = ready - begin;
  result.times.first_ms = first - ready;
  const CompiledProgram& compiled = program.compiled();
  program.start_profile();
  program.run_only(ordered);
  result.steps = program.profile();
  result.memory.arena = program.arena_bytes();
  if (is_planned_ahead(compiled)) result.memory.least = compiled.live_set_bytes;
  result.memory.held = program.held_bytes();
  result.memory.weights = compiled.weight_bytes;
  if (!o.profile) return result;
  program.start_profile();
  std::vector<double> profiled;
  for (double start = now_ms(), end = start + 500 * o.seconds;
       profiled.size() < 10 || (start < end && profiled.size() < 100'000);) {
    program.run_only(ordered);
    double stop = now_ms();
    profiled.push_back(stop - start);
    start = stop;
  }
  result.profile = program.profile();
  result.profiled_runs = static_cast<int64_t>(profiled.size());
  result.profiled_ms = summarise_times(std::move(profiled)).median_ms;
  return result;
}

BenchResult bench_compiled(const BenchArguments& o) {
  const ModelOptions usual;
  const auto refuse = [&](const char* option) {
    throw UsageError(concat(option, ": ", o.model, " is compiled already; the option is for models"));
  };
  if (o.fusion != usual.fusion) refuse("--fusion");
  if (o.winograd != usual.winograd) refuse("--winograd");
  if (!o.max_tensor_bytes.empty()) refuse("--max-tensor-bytes");
  if (o.allow_code) refuse("--allow-code");
  std::vector<std::string> arguments;
  if (o.cpu != usual.cpu) arguments.insert(arguments.end(), {"--cpu", o.cpu});
  for (const std::string& dim : o.dims) arguments.insert(arguments.end(), {"--dim", dim});
  if (o.threads > 0) arguments.insert(arguments.end(), {"--threads", std::to_string(o.threads)});
  for (const std::string& shape : o.shapes) arguments.insert(arguments.end(), {"--shape", shape});
  for (const std::string& input : o.inputs) arguments.insert(arguments.end(), {"--input", input});
  if (o.profile) arguments.push_back("--profile");
  return bench_folder(o.model, o.seconds, arguments);
}

// What this program finds in a process of its own.
PairComparison compare_in_process(const BenchArguments& o) {
  std::vector<std::string> words = {"/proc/self/exe", "bench",  o.model,       "--against",
                                    o.against,        "--json", "--processes", "1"};
  for (const auto& [option, values] : {std::pair("--input", &o.inputs), {"--shape", &o.shapes}, {"--dim", &o.dims}})
    for (const std::string& value : *values) words.insert(words.end(), {option, value});
  words.insert(words.end(), {"--threads", std::to_string(o.threads), "--seconds", std::to_string(o.seconds / o.processes)});
  const ProcessResult done = run_process(words, "", 600 + o.seconds);
  const nlohmann::json said = nlohmann::json::parse(done.output, nullptr, false);
  if (!said.is_object()) {  // its own message, without the name of the program
    std::string text = done.output.substr(0, done.output.find_last_not_of('\n') + 1);
    if (text.rfind("metac: ", 0) == 0) text.erase(0, 7);
    throw CompileError({"", "", text});
  }
  PairComparison c;
  c.pairs = said.at("pairs");
  c.first_ms = said.at("median_ms").at(0);
  c.second_ms = said.at("median_ms").at(1);
  c.change = said.at("change");
  c.low = said.at("low");
  c.high = said.at("high");
  return c;
}

// Two compiled folders by turns, in one process or in several, one after the other.
PairComparison compare_folders(const BenchArguments& o) {
  const CompiledFolder folder(o.model);
  const std::map<std::string, Tensor> inputs = gather_inputs(folder.ports(), o.inputs, o.shapes, o.dims, true);
  if (o.processes == 1) return compare_speed(o.model, o.against, inputs, o.threads, o.seconds);
  std::vector<PairComparison> processes;
  for (int k = 0; k < o.processes; ++k) processes.push_back(compare_in_process(o));
  return compare_processes(processes);
}

// Slower is what is slower by more than the threshold in all of the interval.
int bench_pair(const BenchArguments& o) {
  const PairComparison c = compare_folders(o);
  const double threshold = o.threshold < 0 ? 1.5 : o.threshold;
  const bool slower = c.low > threshold / 100, faster = c.high < -threshold / 100;
  const bool undecided = !slower && c.high > threshold / 100;
  if (o.json)
    std::cout << nlohmann::ordered_json{{"pairs", c.pairs},   {"median_ms", {c.first_ms, c.second_ms}},
                                        {"change", c.change}, {"low", c.low},
                                        {"high", c.high},     {"threshold", threshold / 100},
                                        {"slower", slower},   {"undecided", undecided},
                                        {"faster", faster}}
                     .dump(2)
              << "\n";
  else
    std::printf(
        "%.4g ms a run, %.4g ms of %s: %+.2f %%, with %d %% from %+.2f to %+.2f %% (%lld pairs): %s (allowed: %.1f %%)\n",
        c.first_ms, c.second_ms, o.against.c_str(), 100 * c.change, o.processes == 1 ? 99 : 90, 100 * c.low, 100 * c.high,
        static_cast<long long>(c.pairs),
        slower      ? "slower"
        : faster    ? "faster"
        : undecided ? "undecided, measure longer (--seconds)"
                    : "no slower",
        threshold);
  return slower ? exit_difference : exit_good;
}

// Adds how the report compares to the earlier one. True: it is worse than is allowed.
bool against_baseline(const BenchArguments& o, nlohmann::ordered_json& report, std::string* text) {
  const FileBytes before = read_file(o.baseline, 64 << 20);
  const double threshold = o.threshold < 0 ? 5 : o.threshold;
  const BaselineComparison c = compare_with_baseline(report, std::string(before.view()), o.baseline, threshold / 100);
  report["baseline"] = {
      {"median_change", c.median_change}, {"min_change", c.least_change}, {"arena_change", c.memory_change},
      {"threshold", threshold / 100},     {"slower", c.slower},           {"larger", c.larger}};
  char line[300];
  std::snprintf(line, sizeof line,
                "against %.100s: median %+.1f %%, min %+.1f %%, working memory %+.1f %%: %s (allowed: %.1f %%)\n",
                o.baseline.c_str(), 100 * c.median_change, 100 * c.least_change, 100 * c.memory_change,
                c.slower   ? "slower"
                : c.larger ? "larger"
                           : "no worse",
                threshold);
  *text += line;
  return c.slower || c.larger;
}

int bench_command(const BenchArguments& o) {
  if (!o.against.empty()) {
    if (!std::filesystem::is_directory(o.model))
      throw UsageError("--against compares compiled folders: give one to bench too");
    if (!o.baseline.empty() || o.profile || o.peak)
      throw UsageError("--against goes with inputs, --threads, --seconds, --processes, --threshold, --json");
    return bench_pair(o);
  }
  if (o.model.empty() && !o.baseline.empty()) throw UsageError("--baseline wants a model or a compiled folder");
  if (o.model.empty() && !o.peak) throw UsageError("bench wants a model, a compiled folder, or --peak");
  std::optional<MachinePeak> peak;
  // Machines change their speed: the better of what is seen before and after the runs.
  auto measure_peak = [&] {
    if (!o.peak && !o.profile) return;
    MachinePeak seen = measure_machine_peak(o.compile().cpu, o.threads);
    if (peak)
      seen.gflops = std::max(seen.gflops, peak->gflops),
      seen.gbytes_per_second = std::max(seen.gbytes_per_second, peak->gbytes_per_second);
    peak = seen;
  };
  measure_peak();
  nlohmann::ordered_json report = nlohmann::ordered_json::object();
  std::string text;
  bool worse = false;
  if (o.model.empty()) {
    report["peak"] = {{"threads", peak->threads}, {"gflops", peak->gflops}, {"gbytes_per_second", peak->gbytes_per_second}};
    char line[200];
    std::snprintf(line, sizeof line,
                  "machine peak on %d thread%s: %.1f GFLOP/s of float32 FMA, %.1f GB/s read from memory\n", peak->threads,
                  peak->threads == 1 ? "" : "s", peak->gflops, peak->gbytes_per_second);
    const std::vector<MeasuredCost> costs = measure_cpu_costs(o.compile().cpu, *peak);
    for (const MeasuredCost& c : costs) {
      nlohmann::ordered_json& entry = report["costs"][c.name];
      entry["measured"] = c.value ? nlohmann::ordered_json(*c.value) : nullptr;
      entry["table"] = c.in_table;
    }
    text = concat(line, "of compiler/machine/cpu_costs.h, in its form (docs/adding_a_cpu.md):\n", row_text(costs));
  } else {
    BenchResult result = std::filesystem::is_directory(o.model) ? bench_compiled(o) : bench_model(o);
    measure_peak();
    report = bench_report(result, peak ? &*peak : nullptr);
    text = bench_text(report);
    if (!o.baseline.empty()) worse = against_baseline(o, report, &text);
  }
  std::cout << (o.json ? report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n" : text);
  return worse ? exit_difference : exit_good;
}

}  // namespace

void add_bench_command(CLI::App& app, int* status) {
  auto o = std::make_shared<BenchArguments>();
  CLI::App* command =
      app.add_subcommand("bench", "time a model (in-process compiler) or a compiled folder; measure the machine");
  command->add_option("model", o->model, "a model, or a folder that `metac compile` wrote")->type_name("MODEL|DIR");
  command->add_option("--input", o->inputs, "an input: NAME=file.npy or NAME=random (the default)")
      ->take_all()
      ->type_name("NAME=FILE");
  add_shape_options(*command, *o);
  add_ops_option(*command, *o);
  add_threads_option(*command, *o);
  command->add_option("--seconds", o->seconds, "how long to measure")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_flag("--profile", o->profile, "time per kernel, against the machine's peak");
  command->add_flag("--peak", o->peak,
                    "measure this machine's FMA peak and memory bandwidth with generated kernels, and hold the model "
                    "against them; without a model also what of the table of costs can be measured");
  add_compile_options(*command, *o);
  add_precision_options(*command, *o);
  command->add_flag("--json", o->json, "the figures as JSON");
  command
      ->add_option("--baseline", o->baseline,
                   "an earlier report of bench --json: status 3 where this one is slower or larger")
      ->type_name("FILE.json");
  command
      ->add_option("--against", o->against,
                   "another compiled folder, run by turns with this one: status 3 where this one is slower, with 90 %")
      ->type_name("DIR");
  command
      ->add_option("--processes", o->processes,
                   "with --against: in how many processes, one after another; each has the code at other addresses")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command
      ->add_option("--threshold", o->threshold,
                   "how many percent slower (or larger) is allowed; default 5 with --baseline, 1.5 with --against")
      ->check(CLI::NonNegativeNumber)
      ->type_name("PERCENT");
  command->callback([=] { *status = bench_command(*o); });
}

}  // namespace metac
