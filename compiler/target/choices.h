// Decisions about speed that the analytic model takes, by name: what was offered to it, and what is to be taken instead.
// `metac compile --tune` measures what is offered (compiler/api/tune.h); net.tune.json holds what it found.
//
// A decision is about a subject, a text that says what is computed and over which extents, whatever the model around it:
// "8 64 56 56 / 64 3 3, a[i0, i4, i2 + i5, i3 + i6], b[i1, i4, i5, i6], float32". So equal contractions share one.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "compiler/tensor/contraction.h"

namespace metac {

class Choices {
 public:
  using Table = std::map<std::string, std::map<std::string, std::string>>;  // subject -> kind -> value

  void take(const std::string& subject, const std::string& kind, const std::string& value) { taken_[subject][kind] = value; }
  const Table& taken() const { return taken_; }

  // The index of what to take; candidates[0] is the model's own choice. Remembers what was offered.
  size_t choose(const std::string& subject, const std::string& kind, const std::vector<std::string>& candidates);

  struct Offer {
    std::string subject, kind;
    std::vector<std::string> candidates;
  };
  const std::vector<Offer>& offers() const { return offers_; }  // in the order of the first question, each once
  void forget_offers() { offers_.clear(); }
  // What is taken and was offered with other candidates alone, or not at all: "KIND VALUE for SUBJECT".
  std::vector<std::string> refused() const;

 private:
  Table taken_;
  std::vector<Offer> offers_;
};

// Without choices, the model's.
inline size_t choose(Choices* choices, const std::string& subject, const std::string& kind,
                     const std::vector<std::string>& candidates) {
  return choices ? choices->choose(subject, kind, candidates) : 0;
}

// The subject of decisions about a contraction, in axes of `d`.
std::string subject_of(const Definition& d, const Contraction& c, int lanes_axis);

}  // namespace metac
