// Text and numbers inside JSON that generated programs write. Written here and not taken from a library because generated
// projects need nothing but the standard library.
#pragma once
#include <cmath>
#include <locale>
#include <sstream>
#include <string>

#ifndef METAC_RUNTIME_NAMESPACE
#define METAC_RUNTIME_NAMESPACE metac_runtime
#endif

namespace METAC_RUNTIME_NAMESPACE {

inline std::string json_string(const std::string& text) {
  static const char digits[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const unsigned char u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (u < 32 || u == 127)
      out += {'\\', 'u', '0', '0', digits[u >> 4], digits[u & 15]};
    else
      out += c;
  }
  return out + "\"";
}

// The shortest text that reads back as the same number; JSON has no NaN and no infinity: null.
inline std::string json_number(double value) {
  if (!std::isfinite(value)) return "null";
  for (int digits = 6;; digits = digits == 6 ? 9 : 17) {
    std::ostringstream text;
    text.imbue(std::locale::classic());
    text.precision(digits);
    text << value;
    double back = 0;
    std::istringstream in(text.str());
    in.imbue(std::locale::classic());
    in >> back;
    if (digits == 17 || back == value) return text.str();
  }
}

}  // namespace METAC_RUNTIME_NAMESPACE
