// What changes logits before a token is chosen: penalties, biases, a mask.
#pragma once
#include <cmath>

#include "../memory.h"
#include "sampling.h"
#include "token_list.h"

namespace METAC_RUNTIME_NAMESPACE {

// The text so far: all tokens, of which those from `made` on are of this generation.
struct TextSoFar {
  const int64_t* tokens;
  int64_t count, made;
};

class LogitRules {
 public:
  bool allocate(int64_t vocabulary) { return counts_.allocate(vocabulary); }

  static bool any(const Sampling& s, const unsigned char* allowed) {
    return penalises_repetition(s) || s.presence_penalty != 0 || s.frequency_penalty != 0 || s.bias_count > 0 ||
           allowed != nullptr;
  }

  // `allowed`: a byte for each token, 0 forbids it; null: all are allowed. Tokens beyond the vocabulary are nobody's.
  void apply(const Sampling& s, const TextSoFar& text, const unsigned char* allowed, float* logits) {
    const int64_t vocabulary = counts_.size();
    if (penalises_repetition(s)) {
      const float factor = static_cast<float>(s.repetition_penalty);
      for_each_once(text.tokens, text.count, [&](int64_t token, int32_t) {
        logits[token] = logits[token] < 0 ? logits[token] * factor : logits[token] / factor;
      });
    }
    if (s.presence_penalty != 0 || s.frequency_penalty != 0)
      for_each_once(text.tokens + text.made, text.count - text.made, [&](int64_t token, int32_t times) {
        logits[token] -= static_cast<float>(s.presence_penalty + s.frequency_penalty * times);
      });
    for (int64_t i = 0; i < s.bias_count; ++i)
      if (s.biases[i].token >= 0 && s.biases[i].token < vocabulary) logits[s.biases[i].token] += s.biases[i].bias;
    if (allowed != nullptr)
      for (int64_t token = 0; token < vocabulary; ++token)
        if (allowed[token] == 0) logits[token] = -INFINITY;
  }

 private:
  static bool penalises_repetition(const Sampling& s) { return s.repetition_penalty != 0 && s.repetition_penalty != 1; }

  // Calls what(token, how often it is there) for each token once.
  template <class What>
  void for_each_once(const int64_t* tokens, int64_t count, What what) {
    const auto known = [&](int64_t token) { return token >= 0 && token < counts_.size(); };
    for (int64_t i = 0; i < count; ++i)
      if (known(tokens[i])) ++counts_[tokens[i]];
    for (int64_t i = 0; i < count; ++i)
      if (known(tokens[i]) && counts_[tokens[i]] > 0) {
        what(tokens[i], counts_[tokens[i]]);
        counts_[tokens[i]] = 0;
      }
  }

  Array<int32_t> counts_;  // by token; zeros between calls
};

}  // namespace METAC_RUNTIME_NAMESPACE
