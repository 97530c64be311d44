#include "compiler/support/diagnostic.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "compiler/support/host_process.h"

namespace metac {

std::string shown(const std::string& text) {
  const bool plain = std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  return plain ? text : quoted(text);
}

std::string quoted(std::string_view text) {
  constexpr size_t limit = 80;
  std::string out = "\"";
  for (size_t i = 0; i < text.size() && i < limit; ++i) {
    unsigned char c = text[i];
    if (c == '"' || c == '\\') {
      out += '\\';
      out += text[i];
    } else if (c >= 0x20 && c < 0x7f) {
      out += text[i];
    } else {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", c);
      out += escaped;
    }
  }
  return out + (text.size() > limit ? "...\"" : "\"");
}

std::string Diagnostic::text() const {
  std::string out = file;
  for (const std::string& part : {node, message})
    if (!part.empty()) out += (out.empty() ? "" : ": ") + part;
  return out;
}

void assertion_failed(const char* condition, const char* file, int line, const std::string& message) {
  const std::string text =
      concat("internal error: ", condition, " at ", file, ":", line, message.empty() ? "" : ": ", message);
  if (is_guest()) throw InternalError(text);
  std::fprintf(stderr, "metac: %s\nThis is a bug in metac; please report it with the model.\n", text.c_str());
  std::exit(70);
}

}  // namespace metac
