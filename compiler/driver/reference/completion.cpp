// metac completion: what a shell completes metac's words by.
#include <cstdio>

#include "compiler/driver/command.h"
#include "compiler/driver/reference/option_list.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

std::string words_of(const ListedCommand& command) {
  std::string words;
  for (const ListedOption& option : command.options)
    for (const std::string& name : option.names) words += (words.empty() ? "" : " ") + name;
  return words;
}

// Bash's; zsh runs it through its bashcompinit.
void print_bash(const std::vector<ListedCommand>& commands) {
  std::string names = "help --help --version";
  for (const ListedCommand& command : commands) names += " " + command.name;
  std::printf(
      "_metac() {\n  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words=\n"
      "  if [ \"$COMP_CWORD\" = 1 ]; then\n    COMPREPLY=($(compgen -W \"%s\" -- \"$word\"))\n    return\n  fi\n"
      "  case \"${COMP_WORDS[1]} $before\" in\n",
      names.c_str());
  for (const ListedCommand& command : commands)
    for (const ListedOption& option : command.options)
      for (const std::string& name : option.names)
        if (!option.choices.empty()) {
          std::string choices;
          for (const std::string& choice : option.choices) choices += (choices.empty() ? "" : " ") + choice;
          std::printf("    \"%s %s\") words=\"%s\" ;;\n", command.name.c_str(), name.c_str(), choices.c_str());
        }
  std::printf("  esac\n  if [ -z \"$words\" ] && [ \"${word#-}\" != \"$word\" ]; then\n    case \"${COMP_WORDS[1]}\" in\n");
  for (const ListedCommand& command : commands)
    std::printf("      %s) words=\"%s\" ;;\n", command.name.c_str(), words_of(command).c_str());
  std::printf(
      "    esac\n  fi\n  if [ -n \"$words\" ]; then\n    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n  else\n"
      "    COMPREPLY=($(compgen -f -- \"$word\"))\n  fi\n}\ncomplete -o filenames -F _metac metac\n");
}

std::string fish_text(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return result + "'";
}

void print_fish(const std::vector<ListedCommand>& commands) {
  for (const ListedCommand& command : commands) {
    std::printf("complete -c metac -n __fish_use_subcommand -a %s -d %s\n", command.name.c_str(),
                fish_text(command.text).c_str());
    for (const ListedOption& option : command.options) {
      std::string names, choices;
      for (const std::string& name : option.names)
        names += name[1] == '-' ? " -l " + name.substr(2) : " -s " + name.substr(1);
      for (const std::string& choice : option.choices) choices += (choices.empty() ? "" : " ") + choice;
      std::printf("complete -c metac -n '__fish_seen_subcommand_from %s'%s%s%s -d %s\n", command.name.c_str(), names.c_str(),
                  option.value.empty() ? "" : " -r", choices.empty() ? "" : concat(" -f -a '", choices, "'").c_str(),
                  fish_text(option.text).c_str());
    }
  }
}

}  // namespace

void add_completion_command(CLI::App& app, int* status) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "what a shell completes metac's words by, as a script of that shell");
  command->add_option("shell", *shell, "which shell")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->type_name("SHELL");
  command->callback([=, &app] {
    const std::vector<ListedCommand> commands = list_commands(app);
    if (*shell == "zsh") std::printf("autoload -U +X bashcompinit && bashcompinit\n");
    if (*shell == "fish")
      print_fish(commands);
    else
      print_bash(commands);
    *status = exit_good;
  });
}

}  // namespace metac
