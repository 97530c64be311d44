#include "compiler/api/bench/bench_folder.h"

#include <nlohmann/json.hpp>

#include "compiler/api/child_process.h"
#include "compiler/api/compiled_folder.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/file_system.h"

namespace metac {
namespace {

// What the manifest says of the program that ran.
const nlohmann::json& program_of(const nlohmann::json& manifest, const std::string& cpu) {
  if (manifest.contains("programs") && manifest.at("cpu") != cpu)
    for (const nlohmann::json& program : manifest.at("programs"))
      if (program.at("cpu") == cpu && program.at("function") == "run") return program;
  return manifest;
}

BenchResult result_of(const nlohmann::json& run, const nlohmann::json& manifest) {
  BenchResult result;
  auto number = [&](const char* key) { return run.at(key).get<double>(); };
  result.times = {run.at("runs").get<int64_t>(),
                  number("min_ms"),
                  number("median_ms"),
                  number("p90_ms"),
                  number("p99_ms"),
                  number("ready_ms"),
                  number("first_ms")};
  const nlohmann::json& memory = manifest.at("memory");
  result.memory.arena = run.at("arena_bytes").get<int64_t>();
  if (const nlohmann::json& least = memory.at("live_set_bytes"); !least.is_null())
    result.memory.least = least.get<int64_t>();
  result.memory.held = run.at("held_bytes").get<int64_t>();
  result.memory.weights = memory.at("weight_bytes").get<int64_t>();
  result.memory.peak_resident = run.at("peak_resident_bytes").get<int64_t>();
  const auto rows = [&](const char* key) {
    std::vector<StepProfile> steps;
    for (const auto& row : run.at(key))
      steps.push_back({row.at("name").get<std::string>(), row.at("runs").get<int64_t>(), row.at("ns").get<int64_t>(),
                       row.at("operations").get<double>(), row.at("bytes").get<double>()});
    return steps;
  };
  result.steps = rows("steps");
  result.profile = rows("profile");
  result.profiled_runs = run.at("profiled_runs").get<int64_t>();
  result.profiled_ms = number("profiled_median_ms");
  return result;
}

}  // namespace

BenchResult bench_folder(const std::string& folder, double seconds, const std::vector<std::string>& arguments) {
  std::string name = name_in_manifest(folder), program = folder + "/bin/" + name + "_run";
  if (find_program(program).empty())
    throw CompileError({folder, "", "was not built (compiled with --no-build or --no-programs?); build it with cmake"});
  std::vector<std::string> argv = {program, "--bench", concat(seconds), "--json"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  ProcessResult result = run_process(argv, "", seconds + 600);
  if (!result.good()) throw CompileError({program, "", concat("failed: ", result.output)});
  try {
    const nlohmann::json run = nlohmann::json::parse(result.output);
    const nlohmann::json manifest = read_manifest(folder, name);
    return result_of(run, program_of(manifest, run.value("cpu", "")));
  } catch (const nlohmann::json::exception& error) {
    throw CompileError(
        {program, "",
         concat("answered in a form that this metac does not know (compiled by another version?): ", error.what())});
  }
}

}  // namespace metac
