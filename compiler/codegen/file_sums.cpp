#include "compiler/codegen/file_sums.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "compiler/support/file_system.h"
#include "compiler/support/hashing.h"

namespace metac {
namespace {

namespace fs = std::filesystem;

std::string sum_of(const std::string& path) {
  constexpr size_t piece = 4 << 20;
  const RegularFile file(path);
  Sha256 sum;
  for (size_t at = 0; at < file.size(); at += piece) sum.update(file.read(at, std::min(piece, file.size() - at)).view());
  return sum.hex();
}

}  // namespace

void write_file_sums(const std::string& folder) {
  const std::string name = "SHA256SUMS";
  std::map<std::string, std::string> sums;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    const std::string path = fs::path(entry.path()).lexically_relative(folder).string();
    if (entry.is_regular_file() && path != name) sums[path] = sum_of(entry.path().string());
  }
  std::string text;
  for (const auto& [path, sum] : sums) text += sum + "  " + path + "\n";
  write_file(folder + "/" + name, text);
}

}  // namespace metac
