// What compile and convert are told about adapters.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "compiler/train/adapters/choose_adapter.h"

namespace metac {

struct AdapterOptions {
  std::vector<std::string> sets;  // "french=french.safetensors"
  bool each_row = false;
};

void add_adapter_options(CLI::App& command, AdapterOptions& options);
std::vector<std::string> adapter_names(const AdapterOptions& options);
// The model with an input that chooses among the sets; as it is where there are none. Throws UsageError for what is no
// NAME=FILE, and CompileError as add_adapter_choice does.
Model with_adapter_choice(Model model, const AdapterOptions& options);

}  // namespace metac
