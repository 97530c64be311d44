
/* Generation. The context's states are the text so far: @name@_generate() reads a prompt behind it and makes tokens, one a run. The next call
 * goes on from there; @name@_state_reset() begins another text, @name@_state_truncate() takes steps back, @name@_state_fork() takes over
 * another context's text. docs/generation.md of metac tells more. */
typedef struct @name@_token_bias {
  int64_t token;
  float bias; /* added to its logit; -INFINITY forbids it */
} @name@_token_bias;

/* All zeros but the size: the most likely token, always, until a function or a limit ends it. What there is is applied in this order: */
typedef struct @name@_generation {
  size_t size;                        /* sizeof(@name@_generation) */
  int64_t most_tokens;                /* to make; 0: no limit */
  double repetition_penalty;          /* divides positive and multiplies negative logits of tokens in the text; 0 or 1: none */
  double presence_penalty;            /* taken off the logit of each token that this call made */
  double frequency_penalty;           /* the same, times how often it did */
  const @name@_token_bias* biases;
  int64_t bias_count;
  /* Sets allowed[t] to 0 where token t may not come next; all `vocabulary` of them are 1 before. Not 0: ends the generation. */
  int32_t (*mask)(void* user, const int64_t* tokens, int64_t count, unsigned char* allowed, int64_t vocabulary);
  double temperature;                 /* divides logits; 0: the largest logit is taken, of equal ones the lower token */
  int64_t top_k;                      /* so many of the largest logits; 0: all */
  double top_p;                       /* the likeliest that have this much of the probability; 0 or 1: all */
  double min_p;                       /* those that are this times as likely as the likeliest; 0: all */
  uint64_t seed;                      /* of the stream of random numbers: the same tokens for any number of threads */
  const int64_t* stop_tokens;         /* each ends the generation, and is not told */
  int64_t stop_token_count;
  const char* const* stop_texts;      /* the same of texts, where the library has a tokenizer */
  int64_t stop_text_count;
  /* Told each token, and the text that has become certain with it: text_bytes of UTF-8, "" without a tokenizer. Text that might begin a stop
   * text is held back; what is left at the end comes with token -1. Not 0: ends the generation. NULL: nobody is told. */
  int32_t (*token)(void* user, int64_t token, const char* text, int64_t text_bytes);
  void* user;                         /* the first argument of all these functions */
  int64_t chunk;                      /* tokens of the prompt that one run reads at most; 0: 512 */
  int64_t drafts;                     /* tokens that are guessed and checked in one run; 0: none */
  /* Writes up to `most` tokens that may come next to `guesses`, and says how many: a smaller model's, for instance. NULL: what followed the
   * last tokens where they stood in the text before. Guesses change no token. */
  int64_t (*guess)(void* user, const int64_t* tokens, int64_t count, int64_t* guesses, int64_t most);
  int64_t adapter;                    /* the set of adapters (@name@_generate_adapter) that its runs use; 0: the model alone */
} @name@_generation;

typedef enum @name@_stop {
  @NAME@_STOP_LIMIT = 0,
  @NAME@_STOP_TOKEN = 1,
  @NAME@_STOP_TEXT = 2,
  @NAME@_STOP_CALLER = 3
} @name@_stop;

typedef struct @name@_generated {
  size_t size;                        /* sizeof(@name@_generated), which the caller sets */
  int64_t prompt_tokens, tokens;      /* read and made */
  @name@_stop stopped_by;
  int64_t stop;                       /* the stop token, or which stop text; -1: neither */
  double prompt_seconds, token_seconds;
  int64_t runs, drafted, accepted;    /* behind the prompt's; tokens that were guessed, and how many of them were right */
} @name@_generated;

/* `prompt`: tokens that are read behind the text so far; none: goes on where the last call ended. `result` may be NULL. A call that fails
 * half-way leaves the tokens that it told in the text. The functions above are called from here and must not call the same context. */
@NAME@_API @name@_status @name@_generate(@name@_context* context, const int64_t* prompt, int64_t count, const @name@_generation* settings,
                          @name@_generated* result);

/* Several texts in one context: a step reads a token of each of them in one run, so that the weights are read once for all. A text joins
 * behind its prompt, whenever it comes, and its first token is made then; it ends by what its settings say, and leaves when its number is
 * given to @name@_generate_leave(), ended or not. What its settings point to must stay until then. *sequence: its number, from 1 on. The
 * tokens are those that @name@_generate() would make, up to the rounding of a run of several; `drafts` is not looked at. While there are
 * any, the context's other calls that change states are refused, but for @name@_state_reset(), after which there are none.
 * The model must say where each of them begins, by a mask or by seqlens_k, and its first axes must be open: UNSUPPORTED otherwise. */
@NAME@_API @name@_status @name@_generate_join(@name@_context* context, const int64_t* prompt, int64_t count, const @name@_generation* settings,
                               int64_t* sequence);
/* A token for each that has not ended; *running (may be NULL): how many go on. Where one of them fails, by a function of its caller for
 * instance, that one ends, the others have their token, and the call fails. */
@NAME@_API @name@_status @name@_generate_step(@name@_context* context, int64_t* running);
/* The next that has ended and was not told here before; 0: none. */
@NAME@_API int64_t @name@_generate_ended(@name@_context* context);
/* Takes it out; `result`, which may be NULL: what it has made. */
@NAME@_API @name@_status @name@_generate_leave(@name@_context* context, int64_t sequence, @name@_generated* result);

/* Tokens of a text of UTF-8, and the text of tokens, by the tokenizer that the library was compiled with; UNSUPPORTED where there was none.
 * plain: not 0 leaves out the tokens that the tokenizer puts in front of texts and behind them. *count and *bytes: how much there is, of which
 * as much as there is room for is written (`tokens` and `text` may be NULL). */
@NAME@_API @name@_status @name@_encode(@name@_context* context, const char* text, int64_t bytes, int32_t plain, int64_t* tokens, int64_t room, int64_t* count);
@NAME@_API @name@_status @name@_decode(@name@_context* context, const int64_t* tokens, int64_t count, char* text, int64_t room, int64_t* bytes);

/* The text so far: the number of tokens, of which up to `room` are written to `tokens` (may be NULL). */
@NAME@_API int64_t @name@_generate_text(@name@_context* context, int64_t* tokens, int64_t room);

/* What a text of so many tokens takes: the states' elements, the states with the room that they keep for more, and the working memory of
 * a token behind it, which is measured by a run. The states are reset. */
@NAME@_API @name@_status @name@_generate_memory(@name@_context* context, int64_t tokens, int64_t* states, int64_t* states_with_room, int64_t* working);

/* What an input is for, as metac took it: "tokens", "positions", ...; NULL beyond the last. */
@NAME@_API const char* @name@_generate_input(int32_t index);

/* The names of the sets of adapters that the library was compiled with: 0 is the model alone, whose name is "", 1 the first set; NULL beyond
 * the last. */
@NAME@_API const char* @name@_generate_adapter(int64_t index);
