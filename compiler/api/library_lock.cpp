#include "compiler/api/library_lock.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "compiler/jit/clang_compiler.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/hashing.h"

namespace metac {
namespace {

using Json = nlohmann::ordered_json;
constexpr int lock_format = 1;
constexpr size_t most_named = 12;

std::string word_of(const Json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  return text.size() > 24 ? text.substr(0, 12) + "..." : text;
}

// Each member that differs, those within objects by their path, files by their own.
std::vector<std::string> differences(const Json& locked, const Json& now) {
  std::vector<std::string> found;
  for (const Json& change : Json::diff(locked, now)) {
    const Json::json_pointer at(change.at("path").get<std::string>());
    const std::string within = at.parent_pointer().to_string(), what = change.at("op");
    const bool is_file = within == "/files";
    const std::string name = is_file || within.empty() ? at.back() : within.substr(1) + "." + at.back();
    if (what == "remove")
      found.push_back(name + (is_file ? " is not made any more" : " was " + word_of(locked[at])));
    else if (what == "add")
      found.push_back(name + (is_file ? " is new" : " is " + word_of(now[at])));
    else
      found.push_back(concat(name, " was ", word_of(locked[at]), " and is ", word_of(now[at])));
  }
  return found;
}

}  // namespace

std::string lock_of(const Project& project) {
  const Json manifest = Json::parse(project.files.at(project.name + ".json"));
  Json lock = {{"metac_lock", lock_format}, {"metac", manifest.at("metac")}, {"kernels", compiler_version()}};
  for (const char* key : {"model_sha256", "options", "cpu", "weights_sha256"})
    if (manifest.contains(key)) lock[key] = manifest[key];
  for (const auto& [path, text] : project.files) lock["files"][path] = sha256_hex(text);
  return lock.dump(1) + "\n";
}

void check_lock(const std::string& path, const std::string& locked, const std::string& now) {
  Json before;
  try {
    before = Json::parse(locked);
  } catch (const Json::exception&) {
    fail(path, ": is no JSON: a lock is what --lock writes");
  }
  if (!before.is_object() || !before.contains("metac_lock")) fail(path, ": has no \"metac_lock\": a lock is what --lock writes");
  if (before["metac_lock"] != lock_format)
    fail(path, ": \"metac_lock\" ", before["metac_lock"].dump(), " is not known; this metac reads ", lock_format);
  const std::vector<std::string> found = differences(before, Json::parse(now));
  if (found.empty()) return;
  std::string list;
  for (size_t k = 0; k < std::min(found.size(), most_named); ++k) list += "\n  " + found[k];
  if (found.size() > most_named) list += concat("\n  and ", found.size() - most_named, " more");
  fail("another library than ", path, " says:", list, "\n--lock ", path, " accepts it");
}

}  // namespace metac
