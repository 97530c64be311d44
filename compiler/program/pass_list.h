// The passes by name: those of passes.def, and in the place of `target_passes` those of a target.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace metac {

class Target;

struct PassEntry {
  std::string_view name, reason;
};

// In order, as a model is compiled for this target.
std::vector<PassEntry> pass_list(const Target& target);
// Throws CompileError with the names that there are.
void check_pass_name(const std::string& name, const Target& target);

}  // namespace metac
