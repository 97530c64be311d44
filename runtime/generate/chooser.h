// One generation: what it was asked for, what it has made, and which token comes next.
#pragma once
#include "sampler.h"
#include "token_list.h"

namespace METAC_RUNTIME_NAMESPACE {

struct GenerationSettings {
  int64_t most_tokens;  // that are made; 0: until something else ends it
  Sampling sampling;
  const int64_t* stop_tokens;  // each ends the generation, and is not told
  int64_t stop_token_count;
  int64_t chunk;   // tokens of the prompt that one run reads at most; 0: 512
  int64_t drafts;  // tokens that are guessed and checked in one run; 0: none
  int64_t adapter;  // the set of adapters that its runs use; 0: the model alone
};

enum class StoppedBy : int32_t { limit = 0, stop_token = 1, stop_text = 2, caller = 3 };

struct GenerationResult {
  int64_t prompt_tokens, tokens;  // read and made
  StoppedBy stopped_by;
  int64_t stop;  // the stop token, or which of the stop texts; -1: neither
  double prompt_seconds, token_seconds;
  int64_t runs, drafted, accepted;  // of tokens, behind the prompt's; guesses, and those that were right
};

// waits: a token of the text is in no run yet, so that the prompt may be empty.
inline bool check_generation(const GenerationSettings& s, const int64_t* prompt, int64_t count, bool waits,
                             Failure& failure) {
  if (count < 0 || (prompt == nullptr && count > 0)) return failure.set(Status::invalid_argument, "no prompt");
  if (count == 0 && !waits)
    return failure.set(Status::invalid_argument,
                       "the prompt is empty, and no token of an earlier generation waits to be read");
  for (int64_t i = 0; i < count; ++i)
    if (prompt[i] < 0)
      return failure.set(Status::invalid_argument, "token %lld of the prompt is %lld", static_cast<long long>(i),
                         static_cast<long long>(prompt[i]));
  const Sampling& p = s.sampling;
  const double numbers[] = {p.repetition_penalty, p.presence_penalty, p.frequency_penalty, p.temperature, p.top_p, p.min_p};
  for (const double number : numbers)
    if (!std::isfinite(number)) return failure.set(Status::invalid_argument, "a number of the sampling is not finite");
  if (p.temperature < 0 || p.top_k < 0 || p.top_p < 0 || p.min_p < 0 || p.min_p > 1 || p.repetition_penalty < 0 ||
      p.bias_count < 0 || s.most_tokens < 0 || s.stop_token_count < 0 || s.chunk < 0 || s.drafts < 0)
    return failure.set(Status::invalid_argument, "a number of the generation is below 0, or min_p above 1");
  return true;
}

// Caller, the functions of whoever asked for it:
//   const unsigned char* allowed(const TextSoFar& text, int64_t vocabulary, bool* good): which tokens may come next; null:
//   all of them
//   bool token(int64_t token, GenerationResult* result): false: to end it, for which the result says the reason
//   int64_t guess(const TokenList& text, int64_t vocabulary, int64_t most, TokenList& drafts): appends up to so many tokens
//   that may come next, and says how many; below 0: failed. Of one text alone (Generator)
//   Failure& failure()
template <class Caller>
class Chooser {
 public:
  Chooser(Caller& caller, Sampler& sampler, const GenerationSettings& settings)
      : caller_(caller), sampler_(sampler), s_(settings) {}

  // made_from: the first token of this generation. -1: the caller's failure says why there is none.
  int64_t choose(const float* logits, const TokenList& tokens, int64_t made_from, const GenerationResult* result) {
    const TextSoFar text = {tokens.data(), tokens.size(), made_from};
    bool good = true;
    const unsigned char* const allowed = caller_.allowed(text, sampler_.vocabulary(), &good);
    if (!good) return -1;
    return sampler_.choose(logits, s_.sampling, text, allowed, static_cast<uint64_t>(result->tokens), caller_.failure());
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
    if (!caller_.token(token, result)) return false;
    result->stopped_by = StoppedBy::limit;
    return s_.most_tokens == 0 || result->tokens < s_.most_tokens;
  }

 private:
  Caller& caller_;
  Sampler& sampler_;
  const GenerationSettings& s_;
};

}  // namespace METAC_RUNTIME_NAMESPACE
