// metac operators: the coverage table, out of the registry.
#include <cstdio>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "compiler/driver/command.h"
#include "compiler/ops/registry.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/file_system.h"

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

struct Count {
  int64_t passed = 0, all = 0;
};

// Cases of one node by operator, out of what `metac verify --recursive --json` wrote.
std::map<std::string, Count> measured(const std::string& path) {
  std::map<std::string, Count> counts;
  if (path.empty()) return counts;
  const nlohmann::json report = nlohmann::json::parse(read_file(path, 256 << 20).view(), nullptr, false);
  if (!report.is_object() || !report.contains("cases")) fail(quoted(path), " is no report of metac verify --json");
  for (const nlohmann::json& row : report["cases"]) {
    Count& count = counts[row.value("operator", "")];
    ++count.all;
    count.passed += row.value("status", "") == "passed";
  }
  return counts;
}

// The page docs/operators.md.
void print_markdown(const std::map<std::string, Count>& counts) {
  std::printf(
      "# Operators\n\nWhat `metac operators --markdown --measured FILE` writes out of the registry; FILE is what\n"
      "`metac verify CASES --recursive --json` wrote on ONNX's backend cases (`tests/conformance/generate_cases.py`). "
      "Cases\n"
      "are those of one node alone; operators expanded into others are not counted. Those that do not pass have inputs or\n"
      "outputs of types that metac refuses by name: floats of 4 and 8 bits, integers of 2 and 4 bits (most of Cast's\n"
      "cases and CastLike's), strings, sequences, optionals.\n\n"
      "| operator | domain | changed in opsets | inputs | outputs | cases passed |\n|---|---|---|---|---|---|\n");
  auto range = [](int low, int high) {
    return low == high ? std::to_string(low) : std::to_string(low) + (high < 0 ? " or more" : " to " + std::to_string(high));
  };
  for (const OpSchema* op : all_operators()) {
    const auto found = op->domain.empty() || op->domain.rfind("ai.onnx", 0) == 0 ? counts.find(op->name) : counts.end();
    const std::string cases =
        found == counts.end() ? "" : std::to_string(found->second.passed) + " of " + std::to_string(found->second.all);
    std::printf("| %s | %s | %s | %s | %s | %s |\n", op->name.c_str(), op->domain.empty() ? "ai.onnx" : op->domain.c_str(),
                joined(op->since).c_str(), range(op->min_inputs, op->max_inputs).c_str(),
                range(op->min_outputs, op->max_outputs).c_str(), cases.c_str());
  }
}

int list_operators(bool json) {
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
      std::printf("%-28s %-22s %-22s %s\n", op->name.c_str(), domain.c_str(), joined(op->since).c_str(),
                  joined(op->not_yet).c_str());
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
  auto json = std::make_shared<bool>(false), markdown = std::make_shared<bool>(false);
  auto report = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("operators", "the operators this build knows");
  command->add_flag("--json", *json, "the table as JSON");
  command->add_flag("--markdown", *markdown, "the table as a page, docs/operators.md");
  command
      ->add_option("--measured", *report,
                   "with --markdown: how many cases pass, as `metac verify --recursive --json` found it")
      ->type_name("FILE.json");
  command->callback([=] {
    if (*markdown) print_markdown(measured(*report));
    *status = *markdown ? exit_good : list_operators(*json);
  });
}

}  // namespace metac
