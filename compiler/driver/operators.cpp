// metac operators: the coverage table, out of the registry.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "compiler/driver/command.h"
#include "compiler/ops/registry.h"

namespace metac {
namespace {

std::string joined(const std::vector<int>& numbers) {
  std::string text;
  for (int n : numbers) text += (text.empty() ? "" : " ") + std::to_string(n);
  return text;
}

std::string joined(const std::vector<DType>& dtypes) {
  std::string text;
  for (DType d : dtypes) text += (text.empty() ? "" : " ") + std::string(name_of(d));
  return text;
}

int run(bool json) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (!json) std::printf("%-28s %-22s %-22s %s\n", "operator", "domain", "changed in opsets", "not yet for");
  for (const OpSchema* op : all_operators()) {
    std::string domain = op->domain.empty() ? "ai.onnx" : op->domain;
    if (json) {
      std::vector<std::string> missing;
      for (DType d : op->not_yet) missing.emplace_back(name_of(d));
      rows.push_back({{"name", op->name},
                      {"domain", domain},
                      {"since", op->since},
                      {"min_inputs", op->min_inputs},
                      {"max_inputs", op->max_inputs},
                      {"min_outputs", op->min_outputs},
                      {"max_outputs", op->max_outputs},
                      {"not_yet", missing}});
    } else {
      std::printf("%-28s %-22s %-22s %s\n", op->name.c_str(), domain.c_str(), joined(op->since).c_str(), joined(op->not_yet).c_str());
    }
  }
  if (json)
    std::cout << nlohmann::ordered_json{{"newest_opset", newest_opset}, {"operators", rows}}.dump(2) << "\n";
  else
    std::printf("%zu operators; opsets 1 to %d\n", all_operators().size(), newest_opset);
  return exit_good;
}

}  // namespace

void add_operators_command(CLI::App& app, int* status) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("operators", "the operators this build knows");
  command->add_flag("--json", *json, "the table as JSON");
  command->callback([=] { *status = run(*json); });
}

}  // namespace metac
