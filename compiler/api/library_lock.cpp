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

// Each member that differs, those within objects by their path.
void compare(const std::string& path, const Json& locked, const Json& now, std::vector<std::string>& found) {
  const auto below = [&](const std::string& key) { return path.empty() ? key : path == "files" ? key : path + "." + key; };
  if (!locked.is_object() || !now.is_object()) {
    if (locked != now) found.push_back(concat(path, " was ", word_of(locked), " and is ", word_of(now)));
    return;
  }
  for (const auto& [key, value] : locked.items()) {
    if (!now.contains(key))
      found.push_back(concat(below(key), path == "files" ? " is not made any more" : concat(" was ", word_of(value))));
    else
      compare(below(key), value, now[key], found);
  }
  for (const auto& [key, value] : now.items())
    if (!locked.contains(key)) found.push_back(concat(below(key), path == "files" ? " is new" : concat(" is ", word_of(value))));
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
  std::vector<std::string> found;
  compare("", before, Json::parse(now), found);
  if (found.empty()) return;
  std::string list;
  for (size_t k = 0; k < std::min(found.size(), most_named); ++k) list += "\n  " + found[k];
  if (found.size() > most_named) list += concat("\n  and ", found.size() - most_named, " more");
  fail("another library than ", path, " says:", list, "\n--lock ", path, " accepts it");
}

}  // namespace metac
