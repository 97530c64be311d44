#include "compiler/driver/reference/option_list.h"

namespace metac {
namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts = {""};
  for (const char c : text)
    if (c == at)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

ListedOption listed(const CLI::Option& option) {
  ListedOption row;
  for (const std::string& name : option.get_snames()) row.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) row.names.push_back("--" + name);
  row.text = option.get_description();
  row.default_value = option.get_default_str();
  row.required = option.get_required();
  row.repeats = option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
  if (option.get_type_size() == 0) return row;
  // CLI11 puts what is checked behind the type: "TEXT:{cpu,cuda}", "INT:INT in [0 - 256]".
  const std::string type = option.get_type_name();
  const size_t open = type.find('{'), close = type.find('}');
  row.value = type.substr(0, type.find(':'));
  if (open != std::string::npos && close != std::string::npos) {
    row.value = type.substr(open, close - open + 1);
    row.choices = split(type.substr(open + 1, close - open - 1), ',');
    if (row.value.size() > 60) {  // too long for a line
      row.value = "NAME";
      row.text += ": one of";
      for (const std::string& choice : row.choices) row.text += (choice == row.choices[0] ? " " : ", ") + choice;
    }
  } else if (row.value == "INT" || row.value == "UINT" || row.value == "FLOAT") {
    row.value = "NUMBER";
  }
  return row;
}

ListedCommand listed(const CLI::App& app) {
  ListedCommand command = {app.get_name(), app.get_description(), {}, {}};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    (option->get_positional() ? command.arguments : command.options).push_back(listed(*option));
  }
  return command;
}

}  // namespace

std::vector<ListedCommand> list_commands(const CLI::App& app) {
  std::vector<ListedCommand> commands;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App* each) { return !each->get_group().empty(); }))
    commands.push_back(listed(*command));
  return commands;
}

}  // namespace metac
