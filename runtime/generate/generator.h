// Generation: the prompt in runs of many tokens, then a token a run, chosen from the logits of the one before. The sequence
// of a context is what its states have seen, and at most one token more: the last one that was chosen, which no run has read
// yet.
#pragma once
#include <ctime>

#include "prompt_lookup.h"
#include "sampler.h"

namespace METAC_RUNTIME_NAMESPACE {

struct GenerationSettings {
  int64_t most_tokens;  // that are made; 0: until something else ends it
  Sampling sampling;
  const int64_t* stop_tokens;  // each ends the generation, and is not told
  int64_t stop_token_count;
  int64_t chunk;   // tokens of the prompt that one run reads at most; 0: 512
  int64_t drafts;  // tokens that are guessed by looking into the text and checked in one run; 0: none
};

enum class StoppedBy : int32_t { limit = 0, stop_token = 1, stop_text = 2, caller = 3 };

struct GenerationResult {
  int64_t prompt_tokens, tokens;  // read and made
  StoppedBy stopped_by;
  int64_t stop;  // the stop token, or which of the stop texts; -1: neither
  double prompt_seconds, token_seconds;
  int64_t runs, drafted, accepted;  // of tokens, behind the prompt's; guesses, and those that were right
};

// What a context has read and made.
class Sequence {
 public:
  // The states keep their first `length` steps; 0: nothing has been.
  void truncate(int64_t length) {
    tokens_.truncate(length);
    waiting_ = false;
    read = length < read ? length : read;
  }
  bool copy(const Sequence& other) {
    waiting_ = other.waiting_;
    read = other.read;
    return tokens_.copy(other.tokens_);
  }
  const TokenList& tokens() const { return tokens_; }

  int64_t read = 0;  // tokens that runs have read, which the model counts: for models whose states do not tell

 private:
  template <class Model>
  friend class Generator;
  TokenList tokens_;
  bool waiting_ = false;  // the last token is in no run yet
};

// Model: what runs, and the caller's functions:
//   bool read(const int64_t* tokens, int64_t count): without logits
//   const float* run(const int64_t* tokens, int64_t count, int64_t rows): the logits of the last `rows` of the tokens, one
//   after
//     another; null: failed, as failure() says
//   int64_t vocabulary(): of the last run
//   bool truncate(int64_t steps): takes the last steps back; can_truncate(): whether there is a way
//   const unsigned char* allowed(const TextSoFar& text, bool* good): the caller's mask for the next token; null: there is
//   none bool token(int64_t token, GenerationResult* result): false: to end it, for which the result says the reason
//   Failure& failure()
template <class Model>
class Generator {
 public:
  Generator(Model& model, Sequence& sequence, Sampler& sampler, const GenerationSettings& settings)
      : model_(model), sequence_(sequence), sampler_(sampler), s_(settings) {}

  bool run(const int64_t* prompt, int64_t count, GenerationResult* result) {
    *result = GenerationResult();
    result->stop = -1;
    TokenList& tokens = sequence_.tokens_;
    if (!is_right(prompt, count)) return false;
    const int64_t first = tokens.size() - (sequence_.waiting_ ? 1 : 0);
    if (!tokens.append(prompt, count) || !drafts_.reserve(s_.drafts + 1)) return no_memory();
    made_from_ = tokens.size();
    const double begin = seconds();
    const float* logits = read_prompt(first);
    if (logits == nullptr) return false;
    result->prompt_tokens = made_from_ - first;
    const double read = seconds();
    result->prompt_seconds = read - begin;
    const bool good = make_tokens(logits, result);
    result->token_seconds = seconds() - read;
    return good;
  }

 private:
  static double seconds() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  }
  bool no_memory() { return model_.failure().set(Status::out_of_memory, "no memory for the tokens"); }

  bool is_right(const int64_t* prompt, int64_t count) {
    Failure& failure = model_.failure();
    if (count < 0 || (prompt == nullptr && count > 0)) return failure.set(Status::invalid_argument, "no prompt");
    if (count == 0 && !sequence_.waiting_)
      return failure.set(Status::invalid_argument,
                         "the prompt is empty, and no token of an earlier generation waits to be read");
    for (int64_t i = 0; i < count; ++i)
      if (prompt[i] < 0)
        return failure.set(Status::invalid_argument, "token %lld of the prompt is %lld", static_cast<long long>(i),
                           static_cast<long long>(prompt[i]));
    const Sampling& p = s_.sampling;
    const double numbers[] = {
        p.repetition_penalty, p.presence_penalty, p.frequency_penalty, p.temperature, p.top_p, p.min_p};
    for (const double number : numbers)
      if (!std::isfinite(number)) return failure.set(Status::invalid_argument, "a number of the sampling is not finite");
    if (p.temperature < 0 || p.top_k < 0 || p.top_p < 0 || p.min_p < 0 || p.min_p > 1 || p.repetition_penalty < 0 ||
        p.bias_count < 0 || s_.most_tokens < 0 || s_.stop_token_count < 0 || s_.chunk < 0 || s_.drafts < 0)
      return failure.set(Status::invalid_argument, "a number of the generation is below 0, or min_p above 1");
    return true;
  }

  // Tokens from `first` on, in chunks. A run that fails leaves what the runs before it have read.
  const float* read_prompt(int64_t first) {
    TokenList& tokens = sequence_.tokens_;
    const int64_t chunk = s_.chunk > 0 ? s_.chunk : 512;
    const float* logits = nullptr;
    for (int64_t at = first, count = 0; at < tokens.size(); at += count) {
      const int64_t left = tokens.size() - at;
      count = left < chunk ? left : chunk;
      if (count == left) logits = model_.run(tokens.data() + at, count, 1);
      const bool good = count == left ? logits != nullptr : model_.read(tokens.data() + at, count);
      if (!good) {
        const bool waits = at == first && sequence_.waiting_;  // as it did before
        tokens.truncate(waits ? at + 1 : at);
        sequence_.waiting_ = waits;
        return nullptr;
      }
    }
    sequence_.waiting_ = false;
    return logits;
  }

  bool make_tokens(const float* logits, GenerationResult* result) {
    TokenList& tokens = sequence_.tokens_;
    int64_t drafted = 0;
    if (!sampler_.prepare(model_.vocabulary(), model_.failure())) return false;
    for (;;) {
      int64_t row = 0;  // of the logits: that of the token before the drafts, then those of drafts that were right
      bool ends = false;
      for (;; ++row) {
        const int64_t token = choose(logits + row * sampler_.vocabulary(), result);
        if (token < 0) return take_back(drafted - row) && false;
        if (!tokens.append(token)) return no_memory();
        sequence_.waiting_ = true;
        ends = !tell(token, result);
        if (ends || row == drafted || drafts_[row] != token) break;
        sequence_.waiting_ = false;  // the run has read it already
        ++result->accepted;
      }
      if (!take_back(drafted - row)) return false;
      if (ends) return model_.failure().ok();
      const int64_t last = tokens[tokens.size() - 1];
      drafts_.truncate(0);
      drafted = s_.drafts > 0 && model_.can_truncate() ? look_up(tokens.data(), tokens.size(), wanted(result), &drafts_) : 0;
      result->drafted += drafted;
      if (drafted == 0) {
        logits = model_.run(&last, 1, 1);
      } else {
        if (!fed_.reserve(s_.drafts + 1)) return no_memory();
        fed_.truncate(0);
        if (!fed_.append(last) || !fed_.append(drafts_.data(), drafted)) return no_memory();
        logits = model_.run(fed_.data(), fed_.size(), fed_.size());
      }
      if (logits == nullptr) return false;
      sequence_.waiting_ = false;
      ++result->runs;
    }
  }

  int64_t wanted(const GenerationResult* result) const {
    const int64_t left = s_.most_tokens > 0 ? s_.most_tokens - result->tokens - 1 : s_.drafts;
    return left < s_.drafts ? left : s_.drafts;
  }

  // Drafts that were wrong are not to have been.
  bool take_back(int64_t steps) { return steps == 0 || model_.truncate(steps); }

  int64_t choose(const float* logits, const GenerationResult* result) {
    const TokenList& tokens = sequence_.tokens_;
    const TextSoFar text = {tokens.data(), tokens.size(), made_from_};
    bool good = true;
    const unsigned char* const allowed = model_.allowed(text, &good);
    if (!good) return -1;
    return sampler_.choose(logits, s_.sampling, text, allowed, static_cast<uint64_t>(result->tokens), model_.failure());
  }

  // False: it ends here.
  bool tell(int64_t token, GenerationResult* result) {
    for (int64_t i = 0; i < s_.stop_token_count; ++i)
      if (s_.stop_tokens[i] == token) {
        result->stopped_by = StoppedBy::stop_token;
        result->stop = token;
        return false;
      }
    ++result->tokens;
    if (!model_.token(token, result)) return false;
    result->stopped_by = StoppedBy::limit;
    return s_.most_tokens == 0 || result->tokens < s_.most_tokens;
  }

  Model& model_;
  Sequence& sequence_;
  Sampler& sampler_;
  const GenerationSettings& s_;
  TokenList drafts_, fed_;
  int64_t made_from_ = 0;  // the first token of this generation
};

}  // namespace METAC_RUNTIME_NAMESPACE
