// Tokenizers from files: tokenizer.json of Hugging Face and models of SentencePiece become the one table that generated
// libraries work with (runtime/generate/tokenizer). What the table cannot say is refused with its name; nothing is
// approximated.
#pragma once
#include <string>

namespace metac {

// The bytes of a TokenizerTable. A file that begins with '{' is JSON, others are SentencePiece models. Throws CompileError.
std::string read_tokenizer(const std::string& path);

}  // namespace metac
