#include "compiler/program/pass_list.h"

#include <algorithm>

#include "compiler/support/diagnostic.h"
#include "compiler/target/target.h"

namespace metac {

std::vector<PassEntry> pass_list(const Target& target) {
  std::vector<PassEntry> list;
  const auto add = [&](std::string_view name, std::string_view reason) {
    if (name != "target_passes") return list.push_back({name, reason});
    for (const TargetPass& pass : target.passes()) list.push_back({pass.name, pass.reason});
  };
#define PASS(name, reason) add(#name, reason);
#include "compiler/program/passes.def"
#undef PASS
  return list;
}

void check_pass_name(const std::string& name, const Target& target) {
  const auto list = pass_list(target);
  if (std::any_of(list.begin(), list.end(), [&](const PassEntry& p) { return p.name == name; })) return;
  std::string names;
  for (const PassEntry& p : list) names += concat(names.empty() ? "" : ", ", p.name);
  fail("there is no pass ", quoted(name), "; the passes are: ", names);
}

}  // namespace metac
