// Tokenizers as metac reads them and as libraries run them, behind C functions for compare_tokenizers.py.
#include <cstdio>
#include <memory>
#include <vector>

#include "compiler/support/diagnostic.h"
#include "frontends/tokenizer/tokenizer.h"
#include "runtime/generate/tokenizer/encode.h"
#include "runtime/generate/tokenizer/text_stream.h"

using namespace metac_runtime;

namespace {

struct Opened {
  explicit Opened(std::string bytes) : text(std::move(bytes)), encoder(table()) {}
  const TokenizerTable& table() const { return *reinterpret_cast<const TokenizerTable*>(text.data()); }
  std::string text;
  Encoder encoder;
};

void say(char* message, const char* what) { std::snprintf(message, 512, "%s", what); }

}  // namespace

extern "C" {
void* open_tokenizer(const char* path, char* message) {
  static std::vector<std::unique_ptr<Opened>> all;
  try {
    all.push_back(std::make_unique<Opened>(metac::read_tokenizer(path)));
    return all.back().get();
  } catch (const metac::CompileError& error) {
    say(message, error.diagnostic.message.c_str());
    return nullptr;
  }
}

int64_t encode(void* opened, const char* text, int64_t bytes, int32_t plain, int64_t* tokens, int64_t room, char* message) {
  TokenList list;
  Failure failure;
  if (!static_cast<Opened*>(opened)->encoder.encode(text, bytes, plain != 0, list, failure))
    return say(message, failure.message), -1;
  for (int64_t i = 0; i < list.size() && i < room; ++i) tokens[i] = list[i];
  return list.size();
}

// As a stream that tells what is certain at each token.
int64_t decode(void* opened, const int64_t* tokens, int64_t count, char* text, int64_t room) {
  TextStream stream(static_cast<Opened*>(opened)->table(), nullptr, 0, true);
  int64_t written = 0;
  for (int64_t i = 0; i <= count; ++i) {
    if (!(i < count ? stream.take(tokens[i]) : stream.finish())) return -1;
    for (int64_t k = 0; k < stream.bytes() && written < room; ++k) text[written++] = stream.text()[k];
    stream.told();
  }
  return written;
}
}
