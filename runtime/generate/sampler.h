// From logits to a token. Nothing is allocated for a token, and the choice depends on the logits, the rules, the text, the
// seed and the index alone.
#pragma once
#include <algorithm>
#include <cmath>

#include "../status.h"
#include "logit_rules.h"
#include "random_stream.h"

namespace METAC_RUNTIME_NAMESPACE {

class Sampler {
 public:
  int64_t vocabulary() const { return vocabulary_; }

  bool prepare(int64_t vocabulary, Failure& failure) {
    if (vocabulary == vocabulary_) return true;
    vocabulary_ = 0;
    if (!rules_.allocate(vocabulary) || !changed_.allocate(vocabulary) || !ordered_.allocate(vocabulary) ||
        !candidates_.allocate(vocabulary))
      return failure.set(Status::out_of_memory, "no memory to choose among %lld tokens", static_cast<long long>(vocabulary));
    vocabulary_ = vocabulary;
    return true;
  }

  // The token of this index of a generation; -1: the failure says why there is none.
  int64_t choose(const float* logits, const Sampling& s, const TextSoFar& text, const unsigned char* allowed, uint64_t index,
                 Failure& failure) {
    if (LogitRules::any(s, allowed)) {
      std::copy(logits, logits + vocabulary_, changed_.data());
      rules_.apply(s, text, allowed, changed_.data());
      logits = changed_.data();
    }
    int64_t best = -1;
    float most = -INFINITY;
    bool numbers = true;
    for (int64_t token = 0; token < vocabulary_; ++token) {
      numbers &= logits[token] == logits[token];
      if (logits[token] > most) most = logits[token], best = token;
    }
    if (!numbers) return failure.set(Status::requirement, "the model's logits hold NaN"), -1;
    if (best < 0) return failure.set(Status::requirement, "no token is allowed: all logits are -infinity"), -1;
    if (!(s.temperature > 0)) return best;
    if (most == INFINITY) return best;
    keep_top_k(logits, s, most);
    keep_top_p(s);
    return draw(s, random_uniform(s.seed, index));
  }

 private:
  struct Candidate {
    double weight;  // of probability: exp((logit - largest) / temperature)
    int64_t token;
  };
  static bool is_less_likely(const Candidate& a, const Candidate& b) {
    return a.weight != b.weight ? a.weight < b.weight : a.token > b.token;
  }

  void keep_top_k(const float* logits, const Sampling& s, float most) {
    float least = -INFINITY;
    if (s.top_k > 0 && s.top_k < vocabulary_) {
      std::copy(logits, logits + vocabulary_, ordered_.data());
      float* const last = ordered_.data() + (s.top_k - 1);
      std::nth_element(ordered_.data(), last, ordered_.data() + vocabulary_, [](float a, float b) { return a > b; });
      least = *last;
    }
    count_ = 0;
    for (int64_t token = 0; token < vocabulary_; ++token)
      if (logits[token] >= least && logits[token] > -INFINITY)
        candidates_[count_++] = {std::exp((double{logits[token]} - double{most}) / s.temperature), token};
  }

  void keep_top_p(const Sampling& s) {
    if (!(s.top_p > 0 && s.top_p < 1)) return;
    double all = 0;
    for (int64_t i = 0; i < count_; ++i) all += candidates_[i].weight;
    Candidate* const first = candidates_.data();
    std::make_heap(first, first + count_, is_less_likely);
    int64_t left = count_;
    for (double kept = 0; left > 0 && kept < s.top_p * all; --left) {
      kept += first->weight;
      std::pop_heap(first, first + left, is_less_likely);  // the likeliest goes to the end
    }
    std::copy(first + left, first + count_, first);
    count_ -= left;
    std::sort(first, first + count_, [](const Candidate& a, const Candidate& b) { return a.token < b.token; });
  }

  // The candidates side by side, in the order of tokens, each as long as it is likely: the one at `place` of all their
  // length.
  int64_t draw(const Sampling& s, double place) const {
    double all = 0;
    for (int64_t i = 0; i < count_; ++i)
      if (candidates_[i].weight >= s.min_p) all += candidates_[i].weight;
    double passed = 0;
    int64_t last = -1;
    for (int64_t i = 0; i < count_; ++i) {
      if (candidates_[i].weight < s.min_p || !(candidates_[i].weight > 0)) continue;
      passed += candidates_[i].weight;
      last = candidates_[i].token;
      if (passed > place * all) break;
    }
    return last;
  }

  int64_t vocabulary_ = 0, count_ = 0;
  LogitRules rules_;
  Array<float> changed_, ordered_;
  Array<Candidate> candidates_;
};

}  // namespace METAC_RUNTIME_NAMESPACE
