// What is said of a command line that cannot be taken apart.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace metac {

// One line: the word at fault, and the command or the option that may have been meant.
std::string wrong_usage(const CLI::App& app, const CLI::ParseError& error);

}  // namespace metac
