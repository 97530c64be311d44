#include "compiler/kernel/evaluate_external.h"

#include <map>

namespace metac {

const ExternalFunction* find_external(const std::string& routine) {
  static const std::map<std::string, ExternalFunction> table;
  auto found = table.find(routine);
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace metac
