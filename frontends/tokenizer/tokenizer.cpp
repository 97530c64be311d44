#include "frontends/tokenizer/tokenizer.h"

#include "compiler/support/diagnostic.h"
#include "compiler/support/file_system.h"
#include "frontends/tokenizer/tokenizer_json.h"

namespace metac {

std::string read_tokenizer(const std::string& path) {
  constexpr size_t most = size_t{256} << 20;
  const FileBytes file = read_file(path, most);
  const std::string_view text = file.view();
  const size_t first = text.find_first_not_of(" \t\r\n");
  try {
    return first != std::string_view::npos && text[first] == '{' ? read_tokenizer_json(text) : read_sentencepiece(text);
  } catch (const CompileError& error) {
    throw CompileError({path, "", error.diagnostic.message});
  }
}

}  // namespace metac
