// The library has no tokenizer: tokens alone are told.
class ToldText {
 public:
  ToldText(const char* const*, int64_t) {}
  bool take(int64_t) { return true; }
  const char* text() const { return ""; }
  int64_t bytes() const { return 0; }
  void told() {}
  int64_t stopped() const { return -1; }
  static bool may_stop(@name@_context& context, int64_t stop_count) { return stop_count == 0 || no_tokenizer(context); }

  static bool no_tokenizer(@name@_context& context) {
    return context.failure.set(Status::unsupported, "this needs a tokenizer, which the library was compiled without (metac compile --generate TOKENIZER)");
  }
};

bool encode_text(@name@_context& context, const char*, int64_t, bool, TokenList&) { return ToldText::no_tokenizer(context); }
bool decode_tokens(@name@_context& context, const int64_t*, int64_t, TextBuffer&) { return ToldText::no_tokenizer(context); }
