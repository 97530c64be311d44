// Regular expressions of people (--keep) that name nodes of a model by their name or operator: whole words.
#pragma once
#include <regex>
#include <string>
#include <utility>
#include <vector>

namespace metac {

class NodePatterns {
 public:
  NodePatterns() = default;
  explicit NodePatterns(const std::vector<std::string>& patterns);  // throws CompileError where one is no expression
  bool match(const std::string& name, const std::string& op_type) const;
  // The patterns that match none of these pairs of a name and an operator.
  std::vector<std::string> unused(const std::vector<std::pair<std::string, std::string>>& nodes) const;

 private:
  std::vector<std::pair<std::string, std::regex>> patterns_;
};

}  // namespace metac
