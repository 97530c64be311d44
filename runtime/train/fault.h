// What goes wrong for a reason outside the program (files, data, options, the machine) is a Fault: a message for the person
// who runs it. The trainer is a program, not a library: it throws, and train_program.h says what was thrown.
#pragma once
#include <cerrno>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <string>

namespace metac::train {

struct Fault : std::runtime_error {
  explicit Fault(const std::string& message, int exit_status = 1) : std::runtime_error(message), status(exit_status) {}
  int status;  // of the program: 1 data, files or machine; 2 wrong usage
};

template <class... Parts>
std::string text_of(const Parts&... parts) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text.precision(9);
  (text << ... << parts);
  return text.str();
}

template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw Fault(text_of(parts...));
}

// Names come from models and data: no control characters get to a terminal.
inline std::string quoted(const std::string& name) {
  std::string text = "\"";
  for (const char c : name.substr(0, 200)) text += static_cast<unsigned char>(c) < 32 || c == 127 ? '?' : c;
  return text + (name.size() > 200 ? "...\"" : "\"");
}

inline std::string system_reason() { return std::strerror(errno); }

}  // namespace metac::train
