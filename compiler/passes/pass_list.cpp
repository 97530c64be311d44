#include "compiler/passes/pass_list.h"

#include <algorithm>

#include "compiler/support/diagnostic.h"

namespace metac {

const std::vector<PassEntry>& pass_list() {
  static const std::vector<PassEntry> list = {
#define PASS(name, reason) {#name, reason},
#include "compiler/passes/passes.def"
#undef PASS
  };
  return list;
}

void check_pass_name(const std::string& name) {
  const auto& list = pass_list();
  if (std::any_of(list.begin(), list.end(), [&](const PassEntry& p) { return p.name == name; })) return;
  std::string names;
  for (const PassEntry& p : list) names += concat(names.empty() ? "" : ", ", p.name);
  fail("there is no pass ", quoted(name), "; the passes are: ", names);
}

}  // namespace metac
