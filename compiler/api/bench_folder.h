// Timing a compiled folder through the run program that it contains.
#pragma once
#include <string>
#include <vector>

namespace metac {

// What `bin/<name>_run --bench seconds ...` prints; `arguments` are further ones of that program. Throws CompileError
// where the folder is none of ours, was not built, or fails.
std::string bench_folder(const std::string& folder, double seconds, const std::vector<std::string>& arguments);

// The name under which a folder was compiled, from its manifest. Throws CompileError.
std::string name_in_manifest(const std::string& folder);

}  // namespace metac
