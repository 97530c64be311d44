// A user's C++ through Clang's front end: parsing, checking of types, templates.
#pragma once
#include <functional>
#include <string>

namespace clang {
class ASTContext;
class Sema;
}  // namespace clang

namespace metac {

class CppMessages;

// A text that Clang has read and found good.
struct ParsedSource {
  clang::ASTContext& context;
  clang::Sema& sema;
  CppMessages& messages;
};

// The first error that Clang has found since the last call: message and place. Templates show theirs when they get types.
class CppMessages {
 public:
  virtual ~CppMessages() = default;
  virtual bool take_error(std::string* place, std::string* message) = 0;
};

// Reads the text and hands it to `use`. Throws CompileError at the first mistake, and what `use` throws.
void parse_source(const std::string& text, const std::string& path, const std::function<void(ParsedSource&)>& use);

}  // namespace metac
