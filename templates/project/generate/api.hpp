
  // Generation (@name@_generate): what it made; `token` is told each token and the text that is certain with it, false ends it;
  // `guess` makes up to `most` tokens that may come next (settings.drafts). Of settings, `token`, `guess` and `user` are not looked
  // at where one of these is given.
  using Generation = @name@_generation;
  using Token = std::function<bool(int64_t token, std::string_view text)>;
  using Guess = std::function<std::vector<int64_t>(const int64_t* tokens, int64_t count, int64_t most)>;
  @name@_generated generate(const std::vector<int64_t>& prompt, @name@_generation settings = {}, const Token& token = {}, const Guess& guess = {}) {
    struct Functions {
      const Token& token;
      const Guess& guess;
    } functions{token, guess};
    @name@_generated made{};
    made.size = sizeof made;
    settings.size = sizeof settings;
    if (token || guess) settings.user = &functions, settings.token = nullptr, settings.guess = nullptr;
    if (token)
      settings.token = [](void* user, int64_t made_token, const char* text, int64_t bytes) {
        return static_cast<Functions*>(user)->token(made_token, {text, static_cast<size_t>(bytes)}) ? 0 : 1;
      };
    if (guess)
      settings.guess = [](void* user, const int64_t* tokens, int64_t count, int64_t* guesses, int64_t most) {
        const std::vector<int64_t> found = static_cast<Functions*>(user)->guess(tokens, count, most);
        const int64_t taken = std::min(most, static_cast<int64_t>(found.size()));
        std::copy(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(taken), guesses);
        return taken;
      };
    check(@name@_generate(context_, prompt.data(), static_cast<int64_t>(prompt.size()), &settings, &made));
    return made;
  }
  // Guesses of a smaller model with the same tokens, another library's Model: it goes on from where the texts part.
  template <class Small>
  static Guess guesses_of(Small& small) {
    return [&small](const int64_t* tokens, int64_t count, int64_t most) {
      const std::vector<int64_t> known = small.generate_text();
      int64_t same = 0;
      while (same < count - 1 && same < static_cast<int64_t>(known.size()) && known[static_cast<size_t>(same)] == tokens[same]) ++same;
      if (same < static_cast<int64_t>(known.size())) same > 0 ? small.state_truncate(same) : small.state_reset();
      typename Small::Generation settings{};
      settings.most_tokens = most;
      small.generate({tokens + same, tokens + count}, settings);
      const std::vector<int64_t> text = small.generate_text();
      return std::vector<int64_t>(text.begin() + static_cast<std::ptrdiff_t>(count), text.end());
    };
  }
  // Several texts at once (@name@_generate_join): `settings` and what they point to must stay until the text has left.
  int64_t generate_join(const std::vector<int64_t>& prompt, @name@_generation settings = {}) {
    int64_t sequence = 0;
    settings.size = sizeof settings;
    check(@name@_generate_join(context_, prompt.data(), static_cast<int64_t>(prompt.size()), &settings, &sequence));
    return sequence;
  }
  int64_t generate_step() {
    int64_t running = 0;
    check(@name@_generate_step(context_, &running));
    return running;
  }
  int64_t generate_ended() { return @name@_generate_ended(context_); }
  @name@_generated generate_leave(int64_t sequence) {
    @name@_generated made{};
    made.size = sizeof made;
    check(@name@_generate_leave(context_, sequence, &made));
    return made;
  }
  // Tokens of a text, and the text of tokens, where there is a tokenizer.
  std::vector<int64_t> encode(std::string_view text, bool plain = false) {
    int64_t count = 0;
    check(@name@_encode(context_, text.data(), static_cast<int64_t>(text.size()), plain, nullptr, 0, &count));
    std::vector<int64_t> tokens(static_cast<size_t>(count));
    check(@name@_encode(context_, text.data(), static_cast<int64_t>(text.size()), plain, tokens.data(), count, &count));
    return tokens;
  }
  std::string decode(const std::vector<int64_t>& tokens) {
    int64_t bytes = 0;
    check(@name@_decode(context_, tokens.data(), static_cast<int64_t>(tokens.size()), nullptr, 0, &bytes));
    std::string text(static_cast<size_t>(bytes), 0);
    check(@name@_decode(context_, tokens.data(), static_cast<int64_t>(tokens.size()), text.data(), bytes, &bytes));
    return text;
  }
  // The tokens of the text so far.
  std::vector<int64_t> generate_text() {
    std::vector<int64_t> tokens(static_cast<size_t>(@name@_generate_text(context_, nullptr, 0)));
    @name@_generate_text(context_, tokens.data(), static_cast<int64_t>(tokens.size()));
    return tokens;
  }
