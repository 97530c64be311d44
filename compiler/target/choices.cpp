#include "compiler/target/choices.h"

#include <algorithm>

#include "compiler/support/diagnostic.h"

namespace metac {

std::string kind_of(const Transform& transform) {
  return transform.name == "direct" || transform.name == "filter" ? "algorithm" : transform.name;
}

void Choices::take(const std::string& subject, const Transform& transform) {
  Schedule& schedule = taken_[subject];
  std::erase_if(schedule, [&](const Transform& t) { return kind_of(t) == kind_of(transform); });
  schedule.push_back(transform);
}

const Transform* Choices::ask(const std::string& subject, const std::string& kind,
                              const std::vector<Transform>& candidates) {
  auto known =
      std::find_if(offers_.begin(), offers_.end(), [&](const Offer& o) { return o.subject == subject && o.kind == kind; });
  if (known == offers_.end()) known = offers_.insert(offers_.end(), {subject, kind, {}});
  for (const Transform& c : candidates)
    if (std::find(known->candidates.begin(), known->candidates.end(), c) == known->candidates.end())
      known->candidates.push_back(c);
  auto about = taken_.find(subject);
  if (about == taken_.end()) return nullptr;
  auto found =
      std::find_if(about->second.begin(), about->second.end(), [&](const Transform& t) { return kind_of(t) == kind; });
  return found == about->second.end() ? nullptr : &*found;
}

void Choices::refuse(const std::string& subject, const Transform& transform, const std::string& reason) {
  reasons_[{subject, to_string(transform)}] = reason;
}

std::string Choices::reason(const std::string& subject, const Transform& transform) const {
  auto given = reasons_.find({subject, to_string(transform)});
  if (given != reasons_.end()) return given->second;
  const bool asked = std::any_of(offers_.begin(), offers_.end(),
                                 [&](const Offer& o) { return o.subject == subject && o.kind == kind_of(transform); });
  return asked ? "" : "there is nothing of the kind in this compilation (another model, shape, processor or version?)";
}

bool Choices::is_refused(const std::string& subject, const Transform& transform) const {
  return !reason(subject, transform).empty();
}

std::vector<std::string> Choices::refused() const {
  std::vector<std::string> all;
  for (const auto& [subject, schedule] : taken_)
    for (const Transform& t : schedule)
      if (std::string why = reason(subject, t); !why.empty())
        all.push_back(concat(to_string(t), " for ", subject, ": ", why));
  return all;
}

std::string subject_of(const Definition& d, const Contraction& c, int lanes_axis) {
  std::string text;
  for (size_t k = 0; k < d.domain.size(); ++k)
    text += concat(k == 0 ? "" : static_cast<int>(k) == d.kept() ? " / " : " ", to_string(d.domain[k]));
  auto operand = [&](const char* name, Expr load) {
    text += concat(", ", name, "[");
    for (size_t k = 0; k < load->args.size(); ++k) text += (k ? ", " : "") + to_string(load->args[k]);
    text += "]";
  };
  operand("a", c.a.load);
  operand("b", c.b.load);
  return text + concat(", lanes along i", lanes_axis, ", ", name_of(d.accumulator));
}

}  // namespace metac
