// metac reference: docs/cli.md and the man page, out of the definitions of the options.
#include <cstdio>

#include "compiler/driver/command.h"
#include "compiler/driver/reference/option_list.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

constexpr size_t page_columns = 125;

// Lines of at most `page_columns`, broken at spaces, the later ones indented.
std::string wrapped(const std::string& text, const std::string& indent) {
  std::string result, line;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!line.empty() && line.size() + 1 + word.size() > page_columns) {
      result += line + "\n";
      line = indent + word;
    } else {
      line += (line.empty() ? "" : " ") + word;
    }
    at = end + 1;
  }
  return result + line + "\n";
}

std::string usage_of(const ListedCommand& command) {
  std::string text = "metac " + command.name;
  for (const ListedOption& argument : command.arguments)
    text += argument.required ? " " + argument.value : " [" + argument.value + "]";
  for (const ListedOption& option : command.options)
    if (option.required) text += concat(" ", option.names.front(), " ", option.value);
  return text + " [options]";
}

std::string names_of(const std::vector<std::string>& names, const char* between) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : between) + name;
  return text;
}

std::string said_of(const ListedOption& option) {
  std::string text = option.text;
  if (option.repeats) text += "; may be given several times";
  if (option.required && !option.names.empty()) text += "; required";
  if (!option.default_value.empty()) text += concat(" (default: ", option.default_value, ")");
  return text;
}

void print_page(const std::vector<ListedCommand>& commands) {
  std::printf(
      "# The command line\n\nWhat `metac reference` writes out of the definitions of the options; `metac COMMAND --help` "
      "has\n"
      "the same. `metac reference --man` is the man page, `metac completion bash` (zsh, fish) what a shell completes by:\n\n"
      "```sh\n"
      "mkdir -p ~/.local/share/man/man1 ~/.local/share/bash-completion/completions\n"
      "metac reference --man > ~/.local/share/man/man1/metac.1\n"
      "metac completion bash > ~/.local/share/bash-completion/completions/metac\n"
      "```\n\n"
      "Exit status of every command: 0 good, 1 the model, the input or the machine is at fault, 2 wrong usage, 3 a "
      "difference\n"
      "was found, 70 a bug in metac.\n");
  for (const ListedCommand& command : commands) {
    std::printf("\n## metac %s\n\n%s\n```text\n%s\n```\n\n", command.name.c_str(), wrapped(command.text + ".", "").c_str(),
                usage_of(command).c_str());
    for (const auto* list : {&command.arguments, &command.options})
      for (const ListedOption& option : *list) {
        const std::string name = option.names.empty()
                                     ? option.value
                                     : names_of(option.names, "`, `") + (option.value.empty() ? "" : " " + option.value);
        std::printf("%s", wrapped(concat("* `", name, "`: ", said_of(option)), "  ").c_str());
      }
  }
}

// Text for troff: a leading '.' or '\'' would be a request, a '-' a hyphen.
std::string roff(const std::string& text) {
  std::string result;
  for (const char c : text)
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else if (result.empty() && (c == '.' || c == '\''))
      result += std::string("\\&") + c;
    else
      result += c;
  return result;
}

void print_man(const std::vector<ListedCommand>& commands) {
  std::printf(".TH METAC 1 \"\" \"metac " METAC_VERSION
              "\" \"User Commands\"\n.SH NAME\nmetac \\- compiles neural networks ahead of time\n.SH SYNOPSIS\n.B metac\n"
              ".I COMMAND\n[options]\n.SH DESCRIPTION\nONNX models in, small native libraries out. Models run at once as "
              "well, in any "
              "shape, through an in\\-process compiler.\n.SH COMMANDS\n");
  for (const ListedCommand& command : commands) {
    std::printf(".SS %s\n%s.\n", roff(usage_of(command)).c_str(), roff(command.text).c_str());
    for (const auto* list : {&command.arguments, &command.options})
      for (const ListedOption& option : *list)
        std::printf(".TP\n\\fB%s\\fR%s\n%s\n",
                    roff(option.names.empty() ? option.value : names_of(option.names, ", ")).c_str(),
                    option.names.empty() || option.value.empty() ? "" : (" \\fI" + roff(option.value) + "\\fR").c_str(),
                    roff(said_of(option)).c_str());
  }
  std::printf(
      ".SH EXIT STATUS\n0 good, 1 the model, the input or the machine is at fault, 2 wrong usage, 3 a difference was found, "
      "70 a "
      "bug in metac.\n");
}

}  // namespace

void add_reference_command(CLI::App& app, int* status) {
  auto man = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("reference", "all commands and options, as the page docs/cli.md or a man page");
  command->add_flag("--man", *man, "the man page metac(1)");
  command->callback([=, &app] {
    if (*man)
      print_man(list_commands(app));
    else
      print_page(list_commands(app));
    *status = exit_good;
  });
}

}  // namespace metac
