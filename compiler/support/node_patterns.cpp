#include "compiler/support/node_patterns.h"

#include <algorithm>

#include "compiler/support/diagnostic.h"

namespace metac {

static bool is_named(const std::regex& pattern, const std::string& name, const std::string& op_type) {
  return std::regex_match(op_type, pattern) || (!name.empty() && std::regex_match(name, pattern));
}

NodePatterns::NodePatterns(const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    try {
      patterns_.emplace_back(pattern, std::regex(pattern));
    } catch (const std::regex_error& error) {
      fail("--keep ", quoted(pattern), " is not a regular expression: ", error.what());
    }
  }
}

bool NodePatterns::match(const std::string& name, const std::string& op_type) const {
  return std::any_of(patterns_.begin(), patterns_.end(),
                     [&](const auto& pattern) { return is_named(pattern.second, name, op_type); });
}

std::vector<std::string> NodePatterns::unused(const std::vector<std::pair<std::string, std::string>>& nodes) const {
  std::vector<std::string> texts;
  for (const auto& [text, pattern] : patterns_)
    if (std::none_of(nodes.begin(), nodes.end(),
                     [&](const auto& node) { return is_named(pattern, node.first, node.second); }))
      texts.push_back(text);
  return texts;
}

}  // namespace metac
