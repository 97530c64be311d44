// The commands and options of the program as data: what the reference, the man page and shells' completion are made of.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace metac {

struct ListedOption {
  std::vector<std::string> names;  // "--cpu", "-o"; empty: an argument by its place
  std::string value;               // "NAME=FILE", "{cpu,cuda}"; empty: a flag
  std::string text, default_value;
  std::vector<std::string> choices;  // all values there are; empty: any
  bool required = false, repeats = false;
};

struct ListedCommand {
  std::string name, text;
  std::vector<ListedOption> arguments, options;
};

// As the help has them, in its order; hidden ones are left out.
std::vector<ListedCommand> list_commands(const CLI::App& app);

}  // namespace metac
