#include "compiler/codegen/text/fill_template.h"

#include <cctype>
#include <cstdio>

#include "compiler/codegen/embedded_files.h"
#include "compiler/support/diagnostic.h"

namespace metac {

std::string fill_template(const std::string& path, const TemplateValues& values) {
  auto found = embedded_files().find(path);
  METAC_ASSERT(found != embedded_files().end(), "no template ", path);
  const std::string& text = found->second;
  std::string result;
  for (size_t at = 0; at < text.size();) {
    size_t open = text.find('@', at);
    size_t close = open == std::string::npos
                       ? open
                       : text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_", open + 1);
    if (close == std::string::npos) {
      result += text.substr(at);
      break;
    }
    result += text.substr(at, open - at);
    if (text[close] != '@' || close == open + 1) {  // an @ of the file's own
      result += '@';
      at = open + 1;
      continue;
    }
    auto value = values.find(text.substr(open + 1, close - open - 1));
    if (value == values.end()) {  // "@progbits\n..." and the like: no key of ours
      result += '@';
      at = open + 1;
      continue;
    }
    result += value->second;
    at = close + 1;
  }
  return result;
}

void fill_pieces(TemplateValues& values, bool filled, const std::vector<std::string>& pieces) {
  for (const std::string& piece : pieces) {
    const size_t equals = piece.find('=');
    const std::string file = "templates/project/" + piece.substr(equals + 1);
    values[piece.substr(0, equals)] = filled ? fill_template(file, values) : "";
  }
}

std::string c_string(const std::string& text) {
  std::string result = "\"";
  for (unsigned char c : text) {
    bool plain =
        std::isalnum(c) ||
        (c != 0 && std::string_view(" _./:-,;+*=()[]{}<>!#$%&'|~^@`").find(static_cast<char>(c)) != std::string_view::npos);
    if (plain) {
      result += static_cast<char>(c);
    } else {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\%03o", c);
      result += escape;
    }
  }
  return result + "\"";
}

std::string comment_text(const std::string& text) {
  std::string result;
  for (char c : text.substr(0, 160))
    result += std::isalnum(static_cast<unsigned char>(c)) ||
                      std::string_view(" _./:-,;+*=()[]<>!").find(c) != std::string_view::npos
                  ? c
                  : '_';
  // Neither kind of comment may end early.
  for (size_t at; (at = result.find("*/")) != std::string::npos;) result.replace(at, 2, "* ");
  return result;
}

std::string comment_name(const std::string& name, const std::string& otherwise) {
  bool plain = !name.empty() && name.size() <= 80;
  for (char c : name)
    plain = plain &&
            (std::isalnum(static_cast<unsigned char>(c)) || std::string_view("_./:-").find(c) != std::string_view::npos);
  return plain ? name : otherwise;
}

}  // namespace metac
