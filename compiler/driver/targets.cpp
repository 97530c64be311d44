// metac targets: what code can be made for, and what of it runs here.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "compiler/driver/command.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/target/target.h"

namespace metac {
namespace {

int list_targets(bool json) {
  nlohmann::ordered_json cpus = nlohmann::ordered_json::array(), names = nlohmann::ordered_json::array();
  const std::string native = cpu_target("native").name;
  if (!json) std::printf("--cpu (code for a processor; a library may have several):\n");
  for (const InstructionSet& set : instruction_sets()) {
    const CpuTarget cpu = cpu_target(std::string(set.name));
    const bool here = runs_here(cpu);
    cpus.push_back(
        {{"name", set.name}, {"vector_bytes", set.vector_bytes}, {"runs_here", here}, {"native", native == set.name}});
    if (!json)
      std::printf("  %-18s vectors of %2d bytes  %s\n", std::string(set.name).c_str(), set.vector_bytes,
                  native == set.name ? "runs here; --cpu native is this one"
                  : here             ? "runs here"
                                     : "does not run here");
  }
  if (!json) std::printf("--target:\n");
  for (const Target* target : targets()) {
    names.push_back({{"name", target->name()}, {"default", target == targets()[0]}});
    if (!json)
      std::printf("  %-18s %s\n", std::string(target->name()).c_str(),
                  target == targets()[0] ? "the default" : "libraries need its toolkit to be built");
  }
  if (json) std::cout << nlohmann::ordered_json{{"cpus", cpus}, {"targets", names}}.dump(2) << "\n";
  return exit_good;
}

}  // namespace

void add_targets_command(CLI::App& app, int* status) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("targets", "processors and devices that code can be made for, and which run here");
  command->add_flag("--json", *json, "the list as JSON");
  command->callback([=] { *status = list_targets(*json); });
}

}  // namespace metac
