// The passes of passes.def by name.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace metac {

struct PassEntry {
  std::string_view name, reason;
};

const std::vector<PassEntry>& pass_list();
// Throws CompileError listing all names if it is none of them.
void check_pass_name(const std::string& name);

}  // namespace metac
