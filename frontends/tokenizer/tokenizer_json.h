// Inside the tokenizer front end: the two kinds of files.
#pragma once
#include <string>
#include <string_view>

namespace metac {

// The table of a tokenizer.json; throws CompileError with the message alone.
std::string read_tokenizer_json(std::string_view text);
// The same of a SentencePiece model.
std::string read_sentencepiece(std::string_view bytes);

}  // namespace metac
