// What `metac compile` was asked for.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "compiler/driver/options/adapter_options.h"
#include "compiler/driver/options/model_options.h"
#include "compiler/driver/options/package_options.h"
#include "compiler/target/target.h"

namespace metac {

struct CompileArguments : ModelOptions {
  CompileArguments() { cpu = "portable"; }

  std::string output, name, target, architectures, external, tf32 = "off", emit = "project", print_after, compiler, grad,
                                                             train, data, tune_from, memory_budget;
  std::string lock, locked;
  PackageOptions packages;
  AdapterOptions adapters;
  std::vector<std::string> derivatives, states;
  std::optional<std::string> generate;  // the tokenizer; empty: none
  bool embed_weights = false, jit = false, tune = false, no_build = false, no_programs = false, times = false, json = false;
  int jobs = 0;
  double seconds = 600;
};

inline const Target& target_of(const CompileArguments& o) { return target_named(o.target); }

}  // namespace metac
