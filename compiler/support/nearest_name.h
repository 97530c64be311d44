// Which of the known names somebody may have meant: for "did you mean" in messages.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/diagnostic.h"
#include "runtime/caller/nearest_name.h"

namespace metac {

// The known name with the fewest insertions, deletions and replacements to `name`, if they are few; else "".
inline std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  return metac_runtime::nearest_name(std::string(name), known);
}

// "; did you mean "momentum"?", or "" where nothing is near.
inline std::string suggestion(std::string_view name, const std::vector<std::string>& known) {
  std::string nearest = nearest_name(name, known);
  return nearest.empty() ? "" : "; did you mean " + quoted(nearest) + "?";
}

}  // namespace metac
