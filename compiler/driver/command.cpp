#include "compiler/driver/command.h"

namespace metac {
namespace {

std::string not_available(const std::string& name, const std::string& why) {
  return name + " is not available in this build yet: " + why;
}

}  // namespace

void add_unavailable_option(CLI::App& command, const std::string& name, const std::string& why) {
  command
      .add_option_function<std::vector<std::string>>(
          name, [=](const std::vector<std::string>&) { throw UsageError(not_available(name, why)); }, "(not available yet)")
      ->group("");
}

void add_unavailable_flag(CLI::App& command, const std::string& name, const std::string& why) {
  command.add_flag_function(
             name, [=](int64_t) { throw UsageError(not_available(name, why)); }, "(not available yet)")
      ->group("");
}

}  // namespace metac
