#include "compiler/driver/options/adapter_options.h"

#include <algorithm>

#include "compiler/driver/command.h"
#include "compiler/session/session.h"
#include "compiler/support/diagnostic.h"

namespace metac {

void add_adapter_options(CLI::App& command, AdapterOptions& options) {
  command
      .add_option(
          "--adapters", options.sets,
          "sets of low-rank adapters, safetensors files in PEFT's names: the library has an input \"adapter\", int64, "
          "0 for the model alone and i for the i-th set (docs/adapters.md)")
      ->delimiter(',')
      ->type_name("NAME=FILE,...");
  command.add_flag("--adapter-per-row", options.each_row,
                   "with --adapters: the input is [batch], a set for each row of the batch");
}

std::vector<std::string> adapter_names(const AdapterOptions& options) {
  std::vector<std::string> names;
  for (const std::string& text : options.sets) names.push_back(text.substr(0, text.find('=')));
  return names;
}

Model with_adapter_choice(Model model, const AdapterOptions& options) {
  if (options.sets.empty()) {
    if (options.each_row) throw UsageError("--adapter-per-row says how --adapters are chosen: give --adapters too");
    return model;
  }
  std::vector<NamedAdapters> sets;
  for (const std::string& text : options.sets) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      throw UsageError("--adapters " + text + ": expected NAME=FILE");
    NamedAdapters set{text.substr(0, equals), text.substr(equals + 1)};
    const auto is_same = [&](const NamedAdapters& other) { return other.name == set.name; };
    if (std::any_of(sets.begin(), sets.end(), is_same)) throw UsageError("--adapters " + text + ": the name is taken twice");
    sets.push_back(std::move(set));
  }
  require_compilable(model);  // what follows relies on its structure
  add_adapter_choice(model, sets, options.each_row ? AdapterInput::each_row : AdapterInput::scalar);
  return model;
}

}  // namespace metac
