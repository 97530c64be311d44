#include "compiler/target/choices.h"

#include <algorithm>

#include "compiler/support/diagnostic.h"

namespace metac {

size_t Choices::choose(const std::string& subject, const std::string& kind, const std::vector<std::string>& candidates) {
  METAC_ASSERT(!candidates.empty());
  auto known =
      std::find_if(offers_.begin(), offers_.end(), [&](const Offer& o) { return o.subject == subject && o.kind == kind; });
  if (known == offers_.end()) known = offers_.insert(offers_.end(), {subject, kind, {}});
  for (const std::string& c : candidates)
    if (std::find(known->candidates.begin(), known->candidates.end(), c) == known->candidates.end())
      known->candidates.push_back(c);
  auto about = taken_.find(subject);
  if (about == taken_.end()) return 0;
  auto value = about->second.find(kind);
  if (value == about->second.end()) return 0;
  auto found = std::find(candidates.begin(), candidates.end(), value->second);
  return found == candidates.end() ? 0 : static_cast<size_t>(found - candidates.begin());
}

std::vector<std::string> Choices::refused() const {
  std::vector<std::string> all;
  for (const auto& [subject, kinds] : taken_)
    for (const auto& [kind, value] : kinds) {
      const bool offered =
          std::any_of(offers_.begin(), offers_.end(), [&, &subject = subject, &kind = kind, &value = value](const Offer& o) {
            return o.subject == subject && o.kind == kind &&
                   std::find(o.candidates.begin(), o.candidates.end(), value) != o.candidates.end();
          });
      if (!offered) all.push_back(concat(kind, " ", value, " for ", subject));
    }
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
