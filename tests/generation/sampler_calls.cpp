// The sampler of the runtime behind C functions, for sampler_reference.py.
#include <cstdint>

#include "runtime/generate/prompt_lookup.h"
#include "runtime/generate/sampler.h"

using namespace METAC_RUNTIME_NAMESPACE;

extern "C" {
uint64_t word(uint64_t seed, uint64_t index) { return random_word(seed, index); }

// The token; -1: `message` (512 bytes) says why there is none.
int64_t choose(const float* logits, int64_t vocabulary, const double* numbers, int64_t top_k, uint64_t seed,
               const TokenBias* biases, int64_t bias_count, const int64_t* text, int64_t count, int64_t made,
               const unsigned char* allowed, uint64_t index, char* message) {
  static Sampler sampler;
  Failure failure;
  const Sampling sampling = {numbers[0], numbers[1], numbers[2], biases,     bias_count,
                             numbers[3], top_k,      numbers[4], numbers[5], seed};
  if (!sampler.prepare(vocabulary, failure)) return -2;
  const int64_t token = sampler.choose(logits, sampling, {text, count, made}, allowed, index, failure);
  std::memcpy(message, failure.message, sizeof failure.message);
  return token;
}

int64_t guesses(const int64_t* tokens, int64_t count, int64_t most, int64_t* drafts) {
  TokenList list;
  const int64_t found = look_up(tokens, count, most, &list);
  for (int64_t i = 0; i < found; ++i) drafts[i] = list[i];
  return found;
}
}
