// How metac speaks of errors. Two kinds exist and never mix:
//  - METAC_ASSERT: a bug of ours; prints where and exits with status 70, in libmetac throws InternalError
//    (compiler/support/host_process.h). No input may reach one.
//  - Diagnostic: the model, the input or the machine is at fault. It names the file, the node and the operator, what was
//    expected and what was found, with values. Inside the compiler it travels as the exception CompileError; the public
//    API turns it into a Result (compiler/support/result.h).
#pragma once
#include <cstdint>
#include <exception>
#include <sstream>
#include <string>

namespace metac {

struct Diagnostic {
  std::string file;     // the model or document at fault; may be empty
  std::string node;     // "node #12 \"conv1\" (Conv)", a tensor, a line:column; may be empty
  std::string message;  // what was expected and what was found
  // "model.onnx: node #12 "conv1" (Conv): message"; control characters of model text are escaped.
  std::string text() const;
};

class CompileError : public std::exception {
 public:
  explicit CompileError(Diagnostic d) : diagnostic(std::move(d)), text_(diagnostic.text()) {}
  const char* what() const noexcept override { return text_.c_str(); }
  Diagnostic diagnostic;

 private:
  std::string text_;
};

// A bug of ours, where the process is not metac's to end.
class InternalError : public std::exception {
 public:
  explicit InternalError(std::string text) : text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

// Model text for a message: quotes it, escapes control characters and invalid UTF-8, cuts it at 80 bytes.
std::string quoted(std::string_view text);
// For std::string, which would otherwise find std::quoted by its namespace.
inline std::string quoted(const std::string& text) { return quoted(std::string_view(text)); }
inline std::string quoted(std::string& text) { return quoted(std::string_view(text)); }

// As it is, or quoted where control characters in it could fool a terminal: a path as the user typed it, the name of a dim.
std::string shown(const std::string& text);

// Joins the parts with operator<< : concat("K is ", k, " on the left, ", n, " on the right").
template <typename... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  out.exceptions(std::ios_base::badbit);  // else text for which there was no memory would be missing, and nobody told
  static_cast<void>((out << ... << parts));
  return out.str();
}

// Throws a CompileError that knows only its message; whoever knows the node and the file adds them on the way up.
template <typename... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw CompileError(Diagnostic{"", "", concat(parts...)});
}

[[noreturn]] void assertion_failed(const char* condition, const char* file, int line, const std::string& message);

#define METAC_ASSERT(condition, ...)                                                                           \
  do {                                                                                                         \
    if (!(condition)) ::metac::assertion_failed(#condition, __FILE__, __LINE__, ::metac::concat(__VA_ARGS__)); \
  } while (0)

}  // namespace metac
