#include "compiler/api/bench_folder.h"

#include <nlohmann/json.hpp>

#include "compiler/api/child_process.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/file_system.h"

namespace metac {

std::string name_in_manifest(const std::string& folder) {
  RealFiles files;
  std::vector<std::string> found;
  for (const std::string& name : files.list(folder))
    if (name.ends_with(".json") && !name.ends_with(".tune.json")) found.push_back(name);
  for (const std::string& name : found) {
    nlohmann::json manifest = nlohmann::json::parse(read_file(folder + "/" + name, 64 << 20).view(), nullptr, false);
    if (manifest.is_object() && manifest.contains("metac")) return name.substr(0, name.size() - 5);
  }
  throw CompileError({folder, "", "is no folder that `metac compile` wrote: it has no manifest"});
}

std::string bench_folder(const std::string& folder, double seconds, const std::vector<std::string>& arguments) {
  std::string program = folder + "/bin/" + name_in_manifest(folder) + "_run";
  if (find_program(program).empty()) throw CompileError({folder, "", "was not built (compiled with --no-build?); build it with cmake"});
  std::vector<std::string> argv = {program, "--bench", concat(seconds)};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  ProcessResult result = run_process(argv, "", seconds + 600);
  if (!result.good()) throw CompileError({program, "", concat("failed: ", result.output)});
  return result.output;
}

}  // namespace metac
