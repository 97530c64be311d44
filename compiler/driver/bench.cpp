// metac bench: how long one run takes, where the time goes, and what the machine could do at best.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "compiler/api/bench_folder.h"
#include "compiler/api/machine_peak.h"
#include "compiler/driver/command.h"
#include "compiler/driver/model_inputs.h"
#include "compiler/driver/model_options.h"
#include "compiler/driver/quantities.h"
#include "frontends/read_model.h"

namespace metac {
namespace {

struct Options : ModelOptions {
  std::vector<std::string> inputs;
  bool json = false, profile = false, peak = false;
  double seconds = 3;
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

nlohmann::ordered_json peak_report(const Options& o) {
  MachinePeak peak = measure_machine_peak(o.compile().cpu, o.threads);
  nlohmann::ordered_json report = {{"threads", peak.threads}, {"gflops", peak.gflops}, {"gbytes_per_second", peak.gbytes_per_second}};
  if (!o.json)
    std::printf("machine peak on %d thread%s: %.1f GFLOP/s of float32 FMA, %.1f GB/s read from memory\n", peak.threads,
                peak.threads == 1 ? "" : "s", peak.gflops, peak.gbytes_per_second);
  return report;
}

void print_profile(const std::vector<StepProfile>& steps, const CompiledProgram& program, nlohmann::ordered_json& report) {
  struct Row {
    std::string what;
    int64_t launches = 0, ns = 0;
    double flops = 0;
  };
  std::map<std::string, Row> by_name;
  std::map<std::string, double> flops;
  for (const KernelSource& kernel : program.kernels) flops[kernel.name] = kernel.flops;
  int64_t total = 0;
  for (const StepProfile& step : steps) {
    Row& row = by_name[step.what];
    row.what = step.what;
    row.launches += step.runs;
    row.ns += step.ns;
    row.flops += flops[step.what] * static_cast<double>(step.runs);
    total += step.ns;
  }
  std::vector<Row> rows;
  for (const auto& [unused, row] : by_name) rows.push_back(row);
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.ns > b.ns; });
  nlohmann::ordered_json kernels = nlohmann::ordered_json::array();
  for (const Row& row : rows)
    kernels.push_back({{"kernel", row.what}, {"launches", row.launches}, {"ns", row.ns}, {"share", total ? static_cast<double>(row.ns) / total : 0.0},
                       {"gflops", row.ns ? row.flops / row.ns : 0}});
  report["profile"] = kernels;
}

void show_profile(const nlohmann::ordered_json& rows) {
  std::printf("\n%7s %10s %9s %9s  %s\n", "share", "time", "launches", "GFLOP/s", "kernel");
  for (const auto& row : rows)
    std::printf("%6.1f%% %10s %9lld %9.1f  %s\n", 100 * row["share"].get<double>(), show_seconds(row["ns"].get<double>() * 1e-9).c_str(),
                static_cast<long long>(row["launches"].get<int64_t>()), row["gflops"].get<double>(), row["kernel"].get<std::string>().c_str());
}

nlohmann::ordered_json bench_model(const Options& o) {
  double begin = now();
  Session session(read_model(o.model), o.session());
  std::map<std::string, Tensor> inputs = gather_inputs(session.model(), o.inputs, o.shapes, o.dims);
  std::vector<Tensor> ordered;
  JitProgram& program = session.program_for(inputs, &ordered);
  double compiled = now();
  program.run_only(ordered);
  double first = now();
  std::vector<double> times;
  program.run_only(ordered);
  for (double start = now(), end = start + o.seconds; (start < end && times.size() < 100000) || times.size() < 3;) {
    program.run_only(ordered);
    double stop = now();
    times.push_back(stop - start);
    start = stop;
  }
  std::sort(times.begin(), times.end());
  nlohmann::ordered_json report = {{"runs", times.size()},
                                   {"min_ms", times.front() * 1e3},
                                   {"median_ms", times[times.size() / 2] * 1e3},
                                   {"p99_ms", times[times.size() * 99 / 100] * 1e3},
                                   {"compile_s", compiled - begin},
                                   {"first_ms", (first - compiled) * 1e3}};
  if (o.profile) {
    program.start_profile();
    int runs = 0;
    for (double end = now() + o.seconds / 2; runs < 10 || (now() < end && runs < 100000); ++runs) program.run_only(ordered);
    print_profile(program.profile(), program.compiled(), report);
  }
  return report;
}

int run(const Options& o) {
  nlohmann::ordered_json report = nlohmann::ordered_json::object();
  if (o.model.empty() && !o.peak) throw UsageError("bench wants a model, a compiled folder, or --peak");
  if (!o.model.empty() && std::filesystem::is_directory(o.model)) {
    std::vector<std::string> arguments;
    if (o.threads > 0) arguments.insert(arguments.end(), {"--threads", std::to_string(o.threads)});
    for (const std::string& shape : o.shapes) arguments.insert(arguments.end(), {"--shape", shape});
    for (const std::string& input : o.inputs) arguments.insert(arguments.end(), {"--input", input});
    if (o.profile) arguments.push_back("--profile");
    std::string text = bench_folder(o.model, o.seconds, arguments);
    if (!o.json) std::cout << text;
    report["output"] = text;
  } else if (!o.model.empty()) {
    report = bench_model(o);
    if (!o.json) {
      std::printf("min %s, median %s, p99 %s over %lld runs (compiled in %s, first run %s)\n", show_seconds(report["min_ms"].get<double>() / 1e3).c_str(),
                  show_seconds(report["median_ms"].get<double>() / 1e3).c_str(), show_seconds(report["p99_ms"].get<double>() / 1e3).c_str(),
                  static_cast<long long>(report["runs"].get<int64_t>()), show_seconds(report["compile_s"].get<double>()).c_str(),
                  show_seconds(report["first_ms"].get<double>() / 1e3).c_str());
      if (report.contains("profile")) show_profile(report["profile"]);
    }
  }
  if (o.peak) report["peak"] = peak_report(o);
  if (o.json) std::cout << report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  return exit_good;
}

}  // namespace

void add_bench_command(CLI::App& app, int* status) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("bench", "time a model (in-process compiler) or a compiled folder; measure the machine");
  command->add_option("model", o->model, "a model, or a folder that `metac compile` wrote")->type_name("MODEL|DIR");
  command->add_option("--input", o->inputs, "an input: NAME=file.npy or NAME=random (the default)")->take_all()->type_name("NAME=FILE");
  add_shape_options(*command, *o);
  add_threads_option(*command, *o);
  command->add_option("--seconds", o->seconds, "how long to measure")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_flag("--profile", o->profile, "time per kernel (models)");
  command->add_flag("--peak", o->peak, "measure this machine's FMA peak and memory bandwidth with generated kernels");
  add_compile_options(*command, *o);
  command->add_flag("--json", o->json, "the figures as JSON");
  command->callback([=] { *status = run(*o); });
}

}  // namespace metac
