// Which of the known names somebody may have meant: for "did you mean" in messages.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/diagnostic.h"

namespace metac {

// The known name with the fewest insertions, deletions and replacements to `name`, if they are few; else "".
inline std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  std::string best;
  size_t least = name.size() / 3 + 2;  // exclusive
  for (const std::string& candidate : known) {
    if (candidate.size() > 200 || name.size() > 200) continue;
    std::vector<size_t> row(candidate.size() + 1);
    for (size_t k = 0; k < row.size(); ++k) row[k] = k;
    for (size_t i = 1; i <= name.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t k = 1; k < row.size(); ++k) {
        size_t replaced = diagonal + (name[i - 1] != candidate[k - 1]);
        diagonal = row[k];
        row[k] = std::min({row[k] + 1, row[k - 1] + 1, replaced});
      }
    }
    if (row.back() < least) least = row.back(), best = candidate;
  }
  return best;
}

// "; did you mean "momentum"?", or "" where nothing is near.
inline std::string suggestion(std::string_view name, const std::vector<std::string>& known) {
  std::string nearest = nearest_name(name, known);
  return nearest.empty() ? "" : "; did you mean " + quoted(nearest) + "?";
}

}  // namespace metac
