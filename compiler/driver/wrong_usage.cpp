#include "compiler/driver/wrong_usage.h"

#include "compiler/support/nearest_name.h"

namespace metac {
namespace {

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names = {"help"};
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

}  // namespace

std::string wrong_usage(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> given = app.get_subcommands();
  const CLI::App& command = given.empty() ? app : *given.back();
  const std::string name = given.empty() ? "metac" : "metac " + command.get_name();
  // Words that nothing took come first: what is missing is often missing because of them.
  for (const std::string& word : command.remaining()) {
    if (word.size() > 1 && word[0] == '-') {
      const std::string option = word.substr(0, word.find('='));
      return concat(name, ": there is no option ", quoted(option), suggestion(option, options_of(command)));
    }
    if (given.empty()) return concat("metac: there is no command ", quoted(word), suggestion(word, commands_of(app)));
  }
  if (!command.remaining().empty())
    return concat(name, ": the argument ", quoted(command.remaining().front()), " is one too many");
  if (given.empty()) return "metac: a command is missing";
  return concat(name, ": ", error.what());
}

}  // namespace metac
