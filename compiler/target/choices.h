// Decisions about speed that the analytic model takes, by name: what was offered to it, and what is to be taken instead.
// `metac compile --tune` measures what is offered (compiler/api/tune.h); net.tune.json holds what it found, and so does what
// `--emit schedules` prints, which people may edit.
//
// A decision is about a subject, a text that says what is computed and over which extents, whatever the model around it:
// "8 64 56 56 / 64 3 3, a[i0, i4, i2 + i5, i3 + i6], b[i1, i4, i5, i6], float32". So equal contractions share one.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/tensor/contraction.h"
#include "compiler/tensor/schedule.h"

namespace metac {

// Of transforms that exclude each other one is taken: "direct" and "filter" are both an algorithm.
std::string kind_of(const Transform& transform);

class Choices {
 public:
  using Table = std::map<std::string, Schedule>;  // by subject

  // Instead of what was taken of the same kind.
  void take(const std::string& subject, const Transform& transform);
  const Table& taken() const { return taken_; }

  // What is taken of this kind for a subject; nullptr: the model decides. `candidates` are what tuning may try, the model's
  // own first.
  const Transform* ask(const std::string& subject, const std::string& kind, const std::vector<Transform>& candidates);
  // What is taken cannot be done.
  void refuse(const std::string& subject, const Transform& transform, const std::string& reason);

  struct Offer {
    std::string subject, kind;
    std::vector<Transform> candidates;
  };
  const std::vector<Offer>& offers() const { return offers_; }  // in the order of the first question, each once
  void forget_offers() { offers_.clear(), reasons_.clear(); }
  // What is taken and was refused, or was never asked for: "TRANSFORM for SUBJECT: REASON".
  std::vector<std::string> refused() const;
  bool is_refused(const std::string& subject, const Transform& transform) const;

 private:
  std::string reason(const std::string& subject, const Transform& transform) const;  // empty: it is not refused

  Table taken_;
  std::vector<Offer> offers_;
  std::map<std::pair<std::string, std::string>, std::string> reasons_;  // by subject and transform
};

// The subject of decisions about a contraction, in axes of `d`.
std::string subject_of(const Definition& d, const Contraction& c, int lanes_axis);
// The subject of decisions about how the whole runs through the batch.
constexpr const char* batch_subject = "the batch";

}  // namespace metac
