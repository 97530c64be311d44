// Which of the known names somebody may have meant: for "did you mean" in messages of the compiler and of generated
// programs.
#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#ifndef METAC_RUNTIME_NAMESPACE
#define METAC_RUNTIME_NAMESPACE metac_runtime
#endif

namespace METAC_RUNTIME_NAMESPACE {

// The known name with the fewest insertions, deletions and replacements to `name`, if they are few; else "".
inline std::string nearest_name(const std::string& name, const std::vector<std::string>& known) {
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
        const size_t replaced = diagonal + (name[i - 1] != candidate[k - 1] ? 1 : 0);
        diagonal = row[k];
        row[k] = std::min({row[k] + 1, row[k - 1] + 1, replaced});
      }
    }
    if (row.back() < least) least = row.back(), best = candidate;
  }
  return best;
}

}  // namespace METAC_RUNTIME_NAMESPACE
