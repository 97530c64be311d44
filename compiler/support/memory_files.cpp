// The in-memory file system of the tests: paths are keys, folders exist as far as files do.
#include "compiler/support/diagnostic.h"
#include "compiler/support/file_system.h"

namespace metac {

bool MemoryFiles::exists(const std::string& path) const { return files.count(path) || !list(path).empty(); }

std::string MemoryFiles::read(const std::string& path) const {
  auto found = files.find(path);
  if (found == files.end())
    throw CompileError(Diagnostic{metac::quoted(path), "", "cannot be read: No such file or directory"});
  return found->second;
}

void MemoryFiles::write(const std::string& path, std::string_view content) { files[path] = std::string(content); }

void MemoryFiles::write_folder(const std::string& path, const std::map<std::string, std::string>& content,
                               const std::function<bool(const std::string&)>& may_replace) {
  if (exists(path) && !(may_replace && may_replace(path)))
    throw CompileError(
        Diagnostic{metac::quoted(path), "", "exists and was not written by metac; name another output folder"});
  std::erase_if(files, [&](const auto& file) { return file.first.starts_with(path + "/"); });
  for (const auto& [name, text] : content) files[path + "/" + name] = text;
}

std::vector<std::string> MemoryFiles::list(const std::string& folder) const {
  std::vector<std::string> names;
  for (const auto& [path, content] : files) {
    if (!path.starts_with(folder + "/")) continue;
    std::string rest = path.substr(folder.size() + 1), name = rest.substr(0, rest.find('/'));
    if (names.empty() || names.back() != name) names.push_back(name);
  }
  return names;
}

}  // namespace metac
