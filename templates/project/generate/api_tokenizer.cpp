// What is told of tokens: text as it becomes certain.
class ToldText {
 public:
  ToldText(const char* const* stops, int64_t stop_count) : stream_(*reinterpret_cast<const TokenizerTable*>(@name@_tokenizer_table), stops, stop_count, false) {}
  bool take(int64_t token) { return token < 0 ? stream_.finish() : stream_.take(token); }
  const char* text() const { return stream_.bytes() > 0 ? stream_.text() : ""; }
  int64_t bytes() const { return stream_.bytes(); }
  void told() { stream_.told(); }
  int64_t stopped() const { return stream_.stopped(); }
  static bool may_stop(@name@_context&, int64_t) { return true; }

 private:
  TextStream stream_;
};

bool encode_text(@name@_context& context, const char* text, int64_t bytes, bool plain, TokenList& tokens) {
  return context.generation.encoder.encode(text, bytes, plain, tokens, context.failure);
}

bool decode_tokens(@name@_context& context, const int64_t* tokens, int64_t count, TextBuffer& text) {
  TextStream stream(*reinterpret_cast<const TokenizerTable*>(@name@_tokenizer_table), nullptr, 0, true);
  for (int64_t i = 0; i <= count; ++i) {
    const bool good = (i < count ? stream.take(tokens[i]) : stream.finish()) && text.append(stream.text(), stream.bytes());
    if (!good) return context.failure.set(Status::out_of_memory, "no memory for a text");
    stream.told();
  }
  return true;
}
