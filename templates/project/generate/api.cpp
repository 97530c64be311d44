namespace {

const InputRole input_roles[] = {@input_roles@};
constexpr int32_t logits_output = @logits_output@;
const char* const adapter_names[] = {""@adapter_names@};
constexpr int64_t adapters = int64_t{sizeof adapter_names / sizeof adapter_names[0]};

@tokenizer_functions@
// What generator.h and sequences.h run: `states` are the text's, of which runs have read `read` tokens; `adapter` is what run() and read()
// use, step() is told those of its rows.
class DecoderOfContext {
 public:
  DecoderOfContext(@name@_context& context, StateSet& states, int64_t& read, int64_t adapter) : context_(context), states_(states), read_(read), adapter_(adapter) {}

  Failure& failure() { return context_.failure; }
  int64_t vocabulary() const { return vocabulary_; }

  bool read(const int64_t* tokens, int64_t count) { return feed(run_of(tokens, count, 0), nullptr); }
  const float* run(const int64_t* tokens, int64_t count, int64_t rows) {
    @name@_tensor logits{};
    return feed(run_of(tokens, count, rows), &logits) ? last_rows(logits, rows) : nullptr;
  }
  const float* step(const DecoderRun& run) {
    @name@_tensor logits{};
    return feed(run, &logits) ? last_rows(logits, run.rows) : nullptr;
  }

  bool can_truncate() const { return states_.may_go_back() && !only_last_; }
  bool truncate(int64_t steps) {
    const int64_t length = states_.length() - steps;
    read_ -= steps;
    return states_.truncate(length, failure());
  }

 private:
  DecoderRun run_of(const int64_t* tokens, int64_t count, int64_t logits) const {
    DecoderRun run;
    run.past = states_.length() >= 0 ? states_.length() : read_;
    run.count = count, run.tokens = tokens, run.logits = logits, run.adapters = &adapter_;
    return run;
  }

  // `logits`: null where they are not wanted.
  bool feed(const DecoderRun& run, @name@_tensor* logits) {
    @name@_tensor inputs[@NAME@_INPUTS], outputs[@NAME@_OUTPUTS];
    for (int32_t i = 0; i < @NAME@_INPUTS; ++i) {
      const @name@_port& port = function_ports[run_function].inputs[i];
      const DecoderInput input = {input_roles[i], static_cast<ScalarType>(port.dtype), port.rank, port.dims};
      Block& memory = context_.generation.inputs[i];
      inputs[i] = @name@_tensor();
      inputs[i].rank = port.rank;
      const int64_t bytes = dims_of(input, run, inputs[i].dims) * size_of(input.dtype);
      if (memory.capacity() < bytes && !memory.reserve(2 * bytes)) return failure().set(Status::out_of_memory, "no memory for input \"%s\"", port.name);
      fill_input(input, run, memory.data());
      inputs[i].data = memory.data();
    }
    for (@name@_tensor& output : outputs) output = @name@_tensor(), output.data = METAC_MODEL_UNWANTED;
    const int32_t program = choose_program(run_function, inputs, @NAME@_INPUTS);
    const bool last = logits != nullptr && run.logits == 1 && context_.variant->programs[program].run->own_outputs > 0;
    if (logits != nullptr && !last) outputs[logits_output].data = nullptr;
    if (!run_with(context_, states_, run_function, program, inputs, @NAME@_INPUTS, outputs, @NAME@_OUTPUTS, false, nullptr, last ? logits : nullptr)) return false;
    read_ += run.count;
    if (logits == nullptr || last) return true;
    *logits = outputs[logits_output];
    only_last_ = run.count > 1 && rows_of(*logits) < run.count;
    return true;
  }

  static int64_t element_bytes() { return size_of(static_cast<ScalarType>(function_ports[run_function].outputs[logits_output].dtype)); }
  static int64_t rows_of(const @name@_tensor& logits) {
    const int64_t vocabulary = logits.rank > 0 ? logits.dims[logits.rank - 1] : 0;
    return vocabulary > 0 ? logits.bytes / element_bytes() / vocabulary : 0;
  }

  const float* last_rows(const @name@_tensor& logits, int64_t rows) {
    vocabulary_ = logits.rank > 0 ? logits.dims[logits.rank - 1] : 0;
    const ScalarType type = static_cast<ScalarType>(function_ports[run_function].outputs[logits_output].dtype);
    const int64_t element = element_bytes(), made = rows_of(logits);
    if (made < rows) return failure().set(Status::internal, "the model made %lld rows of logits, and %lld are wanted", static_cast<long long>(made), static_cast<long long>(rows)), nullptr;
    const char* const from = static_cast<const char*>(logits.data) + (made - rows) * vocabulary_ * element;
    if (type == ScalarType::f32) return reinterpret_cast<const float*>(from);
    Block& memory = context_.generation.logits;
    const int64_t elements = rows * vocabulary_;
    if (!memory.reserve(elements * int64_t{sizeof(float)})) return failure().set(Status::out_of_memory, "no memory for the logits"), nullptr;
    float* const to = static_cast<float*>(memory.data());
    with_element(type, [&](auto zero) {
      for (int64_t i = 0; i < elements; ++i) to[i] = static_cast<float>(value_of(element_at<decltype(zero)>(from, i)));
      return 0;
    });
    return to;
  }

  @name@_context& context_;
  StateSet& states_;
  int64_t& read_;
  const int64_t adapter_;
  int64_t vocabulary_ = 0;
  bool only_last_ = false;  // the model gives the logits of the last token alone
};

// The functions of whoever asked for a generation.
class CallerOfGeneration {
 public:
  CallerOfGeneration(@name@_context& context, const @name@_generation& settings)
      : context_(context), s_(settings), text_(settings.stop_texts, settings.stop_texts == nullptr ? 0 : settings.stop_text_count) {}

  Failure& failure() { return context_.failure; }

  const unsigned char* allowed(const TextSoFar& text, int64_t vocabulary, bool* good) {
    if (s_.mask == nullptr) return nullptr;
    Block& memory = context_.generation.mask;
    if (!memory.reserve(vocabulary)) return *good = failure().set(Status::out_of_memory, "no memory for the mask"), nullptr;
    unsigned char* const allowed = static_cast<unsigned char*>(memory.data());
    std::memset(allowed, 1, static_cast<size_t>(vocabulary));
    int32_t ends = 0;
    *good = guarded([&] { ends = s_.mask(s_.user, text.tokens, text.count, allowed, vocabulary); });
    if (!*good) failure().set(Status::callback, "the caller's mask threw an exception");
    else if (ends != 0) *good = failure().set(Status::callback, "the caller's mask ended the generation");
    return allowed;
  }

  bool token(int64_t token, GenerationResult* result) {
    if (!text_.take(token)) return failure().set(Status::out_of_memory, "no memory for the text");
    int32_t ends = 0;
    if (s_.token != nullptr && !guarded([&] { ends = s_.token(s_.user, token, text_.text(), text_.bytes()); }))
      return failure().set(Status::callback, "the caller's function for tokens threw an exception");
    text_.told();
    if (text_.stopped() >= 0) result->stopped_by = StoppedBy::stop_text, result->stop = text_.stopped();
    else if (ends != 0) result->stopped_by = StoppedBy::caller;
    return ends == 0 && text_.stopped() < 0;
  }

  int64_t guess(const TokenList& text, int64_t vocabulary, int64_t most, TokenList& drafts) {
    if (s_.guess == nullptr) return look_up(text.data(), text.size(), most, &drafts);
    Block& memory = context_.generation.guesses;
    if (!memory.reserve(most * int64_t{sizeof(int64_t)})) return failure().set(Status::out_of_memory, "no memory for guesses"), -1;
    int64_t* const guesses = static_cast<int64_t*>(memory.data());
    int64_t count = 0;
    if (!guarded([&] { count = s_.guess(s_.user, text.data(), text.size(), guesses, most); })) return failure().set(Status::callback, "the caller's function for guesses threw an exception"), -1;
    if (count < 0 || count > most) return failure().set(Status::callback, "the caller's function for guesses made %lld of up to %lld", static_cast<long long>(count), static_cast<long long>(most)), -1;
    for (int64_t i = 0; i < count; ++i)
      if (guesses[i] < 0 || guesses[i] >= vocabulary)
        return failure().set(Status::callback, "the caller's function for guesses made token %lld, and the vocabulary has %lld tokens", static_cast<long long>(guesses[i]), static_cast<long long>(vocabulary)), -1;
    return drafts.append(guesses, count) ? count : (failure().set(Status::out_of_memory, "no memory for guesses"), -1);
  }

  // What was held back is told at the end.
  bool finish() {
    if (text_.stopped() >= 0) return true;
    if (!text_.take(-1)) return failure().set(Status::out_of_memory, "no memory for the text");
    return text_.bytes() == 0 || s_.token == nullptr || guarded([&] { s_.token(s_.user, -1, text_.text(), text_.bytes()); }) ||
           failure().set(Status::callback, "the caller's function for tokens threw an exception");
  }

 private:
  @name@_context& context_;
  const @name@_generation s_;
  ToldText text_;
};

GenerationSettings settings_of(const @name@_generation& s) {
  static_assert(sizeof(@name@_token_bias) == sizeof(TokenBias), "the library's and the runtime's are one");
  GenerationSettings settings = GenerationSettings();
  settings.most_tokens = s.most_tokens;
  settings.sampling.repetition_penalty = s.repetition_penalty;
  settings.sampling.presence_penalty = s.presence_penalty;
  settings.sampling.frequency_penalty = s.frequency_penalty;
  settings.sampling.biases = reinterpret_cast<const TokenBias*>(s.biases);
  settings.sampling.bias_count = s.biases == nullptr ? 0 : s.bias_count;
  settings.sampling.temperature = s.temperature;
  settings.sampling.top_k = s.top_k;
  settings.sampling.top_p = s.top_p;
  settings.sampling.min_p = s.min_p;
  settings.sampling.seed = s.seed;
  settings.stop_tokens = s.stop_tokens;
  settings.stop_token_count = s.stop_tokens == nullptr ? 0 : s.stop_token_count;
  settings.chunk = s.chunk;
  settings.drafts = s.drafts;
  settings.adapter = s.adapter;
  return settings;
}

@name@_generated generated_of(const GenerationResult& made) {
  return {sizeof(@name@_generated), made.prompt_tokens, made.tokens, static_cast<@name@_stop>(made.stopped_by), made.stop, made.prompt_seconds, made.token_seconds, made.runs, made.drafted, made.accepted};
}

// What both ways to generate ask of a call; `settings` may be null, and is in `given` then and otherwise.
bool take_generation(@name@_context& held, const int64_t* prompt, int64_t count, const @name@_generation* settings, @name@_generation& given) {
  if (settings != nullptr && !check_size("settings", settings->size, sizeof given, held.failure)) return false;
  if (settings != nullptr) given = *settings;
  if (!ToldText::may_stop(held, given.stop_text_count)) return false;
  bool takes_adapter = false;
  for (const InputRole role : input_roles) takes_adapter |= role == InputRole::adapter;
  const bool named = adapters > 1;  // otherwise the model knows itself how many it has
  if (given.adapter < 0 || (given.adapter > 0 && !takes_adapter) || (named && given.adapter >= adapters))
    return held.failure.set(Status::invalid_argument, "adapter %lld: the library has %lld", static_cast<long long>(given.adapter), static_cast<long long>(adapters - 1));
  const @name@_port& logits = function_ports[run_function].outputs[logits_output];
  const int64_t vocabulary = logits.rank > 0 ? logits.dims[logits.rank - 1] : -1;
  for (int64_t i = 0; vocabulary >= 0 && prompt != nullptr && i < count; ++i)
    if (prompt[i] >= vocabulary)
      return held.failure.set(Status::invalid_argument, "token %lld of the prompt is %lld, and the vocabulary has %lld tokens", static_cast<long long>(i), static_cast<long long>(prompt[i]), static_cast<long long>(vocabulary));
  return true;
}

}  // namespace

@name@_status @name@_generate(@name@_context* context, const int64_t* prompt, int64_t count, const @name@_generation* settings, @name@_generated* result) {
  return use(context, [&](@name@_context& held) {
    @name@_generation given{};
    if (!has_one_text(held, held.failure) || !take_generation(held, prompt, count, settings, given)) return false;
    if (result != nullptr && !check_size("result", result->size, sizeof *result, held.failure)) return false;
    const GenerationSettings used = settings_of(given);
    Sequence& text = held.generation.sequence;
    DecoderOfContext decoder(held, held.states, text.read, used.adapter);
    CallerOfGeneration caller(held, given);
    Generator<DecoderOfContext, CallerOfGeneration> generator(decoder, caller, text, held.generation.sampler, used);
    GenerationResult made;
    const bool good = generator.run(prompt, count, &made) && caller.finish();
    if (result != nullptr) give_struct(generated_of(made), result);
    return good;
  });
}

@name@_status @name@_encode(@name@_context* context, const char* text, int64_t bytes, int32_t plain, int64_t* tokens, int64_t room, int64_t* count) {
  return use(context, [&](@name@_context& held) {
    TokenList list;
    if (count == nullptr || bytes < 0 || (text == nullptr && bytes > 0)) return held.failure.set(Status::invalid_argument, "no text, or nowhere to write to");
    if (!encode_text(held, text, bytes, plain != 0, list)) return false;
    *count = list.size();
    const int64_t copied = tokens == nullptr ? 0 : list.size() < room ? list.size() : room;
    if (copied > 0) std::memcpy(tokens, list.data(), static_cast<size_t>(copied) * sizeof(int64_t));
    return true;
  });
}

@name@_status @name@_decode(@name@_context* context, const int64_t* tokens, int64_t count, char* text, int64_t room, int64_t* bytes) {
  return use(context, [&](@name@_context& held) {
    TextBuffer made;
    if (bytes == nullptr || count < 0 || (tokens == nullptr && count > 0)) return held.failure.set(Status::invalid_argument, "no tokens, or nowhere to write to");
    if (!decode_tokens(held, tokens, count, made)) return false;
    *bytes = made.size();
    const int64_t copied = text == nullptr ? 0 : made.size() < room ? made.size() : room;
    if (copied > 0) std::memcpy(text, made.data(), static_cast<size_t>(copied));
    return true;
  });
}

int64_t @name@_generate_text(@name@_context* context, int64_t* tokens, int64_t room) {
  int64_t count = 0;
  use(context, [&](@name@_context& held) {
    const TokenList& text = held.generation.sequence.tokens();
    count = text.size();
    const int64_t copied = count < room ? count : room;
    if (tokens != nullptr && copied > 0) std::memcpy(tokens, text.data(), static_cast<size_t>(copied) * sizeof(int64_t));
    return true;
  });
  return count;
}

@name@_status @name@_generate_memory(@name@_context* context, int64_t tokens, int64_t* states, int64_t* states_with_room, int64_t* working) {
  return use(context, [&](@name@_context& held) {
    if (tokens < 1 || states == nullptr || states_with_room == nullptr || working == nullptr)
      return held.failure.set(Status::invalid_argument, "a text of %lld tokens, or nowhere to write to", static_cast<long long>(tokens));
    if (!has_one_text(held, held.failure)) return false;
    held.states.bytes_of_length(tokens, states, states_with_room);
    held.states.reset();
    held.generation.sequence.truncate(0);
    const int64_t token = 0;
    const bool good = (held.states.length() < 0 || held.states.set_length(tokens - 1, held.failure)) &&
                      DecoderOfContext(held, held.states, held.generation.sequence.read, 0).run(&token, 1, 1) != nullptr;
    if (good) *working = held.programs[run_function].executor.held_bytes();
    held.states.reset();
    held.generation.sequence.truncate(0);
    return good;
  });
}

const char* @name@_generate_input(int32_t index) { return index >= 0 && index < @NAME@_INPUTS ? name_of(input_roles[index]) : nullptr; }
const char* @name@_generate_adapter(int64_t index) { return index >= 0 && index < adapters ? adapter_names[index] : nullptr; }

