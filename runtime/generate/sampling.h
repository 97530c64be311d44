// How the next token is chosen from the logits. All zeros: the most likely token, always. The rules apply in the order in
// which they stand here; docs/generation.md says the same for callers.
#pragma once
#include <cstdint>

#ifndef METAC_RUNTIME_NAMESPACE
#define METAC_RUNTIME_NAMESPACE metac_runtime
#endif

namespace METAC_RUNTIME_NAMESPACE {

struct TokenBias {
  int64_t token;
  float bias;
};

struct Sampling {
  // Of each token that is in the text, prompt or not: a positive logit is divided by it, a negative one multiplied with it
  // (Keskar et al., "CTRL", 2019). 0 or 1: none.
  double repetition_penalty;
  // Taken off the logit of each token that this generation made; frequency: times how often it did. 0: none.
  double presence_penalty, frequency_penalty;
  const TokenBias* biases;  // added to logits; -infinity forbids a token
  int64_t bias_count;
  // ---- from here on with a temperature above 0 ----
  double temperature;  // divides the logits. 0: the largest logit is taken, of equal ones the lower token
  int64_t top_k;       // so many of the largest logits stay, and those that equal the last of them. 0: all
  double top_p;   // of what is left, as many of the likeliest as it takes to have so much of the probability. 0 or 1: all
  double min_p;   // of what is left, those that are at least so likely as this times the likeliest. 0: all
  uint64_t seed;  // the token of index n falls by the n-th number of its stream (random_stream.h)
};

}  // namespace METAC_RUNTIME_NAMESPACE
