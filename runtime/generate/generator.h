// Generation: the prompt in runs of many tokens, then a token a run, chosen from the logits of the one before. The sequence
// of a context is what its states have seen, and at most one token more: the last one that was chosen, which no run has read
// yet.
#pragma once
#include "chooser.h"
#include "seconds.h"

namespace METAC_RUNTIME_NAMESPACE {

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
  // A token that was chosen, and that no run has read.
  bool append(int64_t token) {
    waiting_ = true;
    return tokens_.append(token);
  }

  int64_t read = 0;  // tokens that runs have read, which the model counts: for models whose states do not tell

 private:
  template <class Model, class Caller>
  friend class Generator;
  TokenList tokens_;
  bool waiting_ = false;  // the last token is in no run yet
};

// Model: what runs.
//   bool read(const int64_t* tokens, int64_t count): without logits
//   const float* run(const int64_t* tokens, int64_t count, int64_t rows): the logits of the last `rows` of the tokens, one
//   after another; null: failed, as failure() says
//   int64_t vocabulary(): of the last run
//   bool truncate(int64_t steps): takes the last steps back; can_truncate(): whether there is a way
//   Failure& failure()
// Caller: as Chooser says.
template <class Model, class Caller>
class Generator {
 public:
  Generator(Model& model, Caller& caller, Sequence& sequence, Sampler& sampler, const GenerationSettings& settings)
      : model_(model),
        caller_(caller),
        chooser_(caller, sampler, settings),
        sequence_(sequence),
        sampler_(sampler),
        s_(settings) {}

  bool run(const int64_t* prompt, int64_t count, GenerationResult* result) {
    const float* const logits = read(prompt, count, result);
    if (logits == nullptr) return false;
    const double begin = seconds();
    const bool good = make_tokens(logits, result);
    result->token_seconds = seconds() - begin;
    return good;
  }

  // The prompt alone: the logits of what comes behind it; null: failed.
  const float* read(const int64_t* prompt, int64_t count, GenerationResult* result) {
    *result = GenerationResult();
    result->stop = -1;
    TokenList& tokens = sequence_.tokens_;
    if (!check_generation(s_, prompt, count, sequence_.waiting_, model_.failure())) return nullptr;
    const int64_t first = tokens.size() - (sequence_.waiting_ ? 1 : 0);
    if (!tokens.append(prompt, count) || !drafts_.reserve(s_.drafts + 1)) return no_memory(), nullptr;
    made_from_ = tokens.size();
    const double begin = seconds();
    const float* const logits = read_prompt(first);
    if (logits == nullptr || !sampler_.prepare(model_.vocabulary(), model_.failure())) return nullptr;
    result->prompt_tokens = made_from_ - first;
    result->prompt_seconds = seconds() - begin;
    return logits;
  }

 private:
  bool no_memory() { return model_.failure().set(Status::out_of_memory, "no memory for the tokens"); }

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
    for (;;) {
      int64_t row = 0;  // of the logits: that of the token before the drafts, then those of drafts that were right
      bool ends = false;
      for (;; ++row) {
        const int64_t token = chooser_.choose(logits + row * sampler_.vocabulary(), tokens, made_from_, result);
        if (token < 0) return take_back(drafted - row) && false;
        if (!tokens.append(token)) return no_memory();
        sequence_.waiting_ = true;
        ends = !chooser_.tell(token, result);
        if (ends || row == drafted || drafts_[row] != token) break;
        sequence_.waiting_ = false;  // the run has read it already
        ++result->accepted;
      }
      if (!take_back(drafted - row)) return false;
      if (ends) return model_.failure().ok();
      const int64_t last = tokens[tokens.size() - 1];
      drafts_.truncate(0);
      const int64_t most = s_.drafts > 0 && model_.can_truncate() ? wanted(result) : 0;
      drafted = most > 0 ? caller_.guess(tokens, sampler_.vocabulary(), most, drafts_) : 0;
      if (drafted < 0) return false;
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

  Model& model_;
  Caller& caller_;
  Chooser<Caller> chooser_;
  Sequence& sequence_;
  Sampler& sampler_;
  const GenerationSettings& s_;
  TokenList drafts_, fed_;
  int64_t made_from_ = 0;  // the first token of this generation
};

}  // namespace METAC_RUNTIME_NAMESPACE
