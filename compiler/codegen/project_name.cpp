#include "compiler/codegen/project_name.h"

#include <cctype>
#include <set>

#include "compiler/support/diagnostic.h"

namespace metac {

void check_project_name(const std::string& name) {
  static const std::set<std::string> reserved = {
      "alignas",  "alignof",  "and",      "asm",     "auto",    "bitand",        "bitor",   "bool",
      "break",    "case",     "catch",    "char",    "class",   "compl",         "const",   "constexpr",
      "continue", "decltype", "default",  "delete",  "do",      "double",        "else",    "enum",
      "explicit", "export",   "extern",   "false",   "float",   "for",           "friend",  "goto",
      "if",       "inline",   "int",      "long",    "mutable", "namespace",     "new",     "noexcept",
      "not",      "nullptr",  "operator", "or",      "private", "protected",     "public",  "register",
      "requires", "return",   "short",    "signed",  "sizeof",  "static",        "struct",  "switch",
      "template", "this",     "throw",    "true",    "try",     "typedef",       "typeid",  "typename",
      "union",    "unsigned", "using",    "virtual", "void",    "volatile",      "wchar_t", "while",
      "xor",      "concept",  "import",   "std",     "metac",   "metac_runtime", "main",    "c",
      "m",        "dl",       "pthread",  "rt",      "stdc",    "unix",          "linux",   "i386",
      "None",     "test",     "install",  "all",     "clean",   "help"};
  bool good = !name.empty() && name.size() <= 64 && !std::isdigit(static_cast<unsigned char>(name[0])) && name[0] != '_';
  for (char c : name) good = good && (std::isalnum(static_cast<unsigned char>(c)) || c == '_');
  if (!good || name.find("__") != std::string::npos)
    fail("the name ", quoted(name),
         " is no identifier: letters, digits and single underscores, a letter first, at most 64 (--name)");
  const bool is_macro = name.size() == 1 && std::string("fFrRwWxX").find(name) != std::string::npos;  // F_OK of unistd.h
  if (reserved.count(name) || is_macro)
    fail("the name ", quoted(name), " is taken by the language or the system; choose another (--name)");
}

std::string project_name_for(const std::string& file_name) {
  std::string stem = file_name.substr(0, file_name.rfind('.')), name;
  for (char c : stem) {
    if (std::isalnum(static_cast<unsigned char>(c)))
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!name.empty() && name.back() != '_')
      name += '_';
  }
  while (!name.empty() && name.back() == '_') name.pop_back();
  name = name.substr(0, 64);
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])))
    name = name.empty() ? "model" : "model_" + name.substr(0, 50);
  try {
    check_project_name(name);
  } catch (const CompileError&) {
    name += "_model";
  }
  return name;
}

}  // namespace metac
