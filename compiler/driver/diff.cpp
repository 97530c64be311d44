// metac diff: what changed between two compilations of a model, for CI.
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "compiler/api/bench_folder.h"
#include "compiler/driver/command.h"
#include "compiler/driver/quantities.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/file_system.h"

namespace metac {
namespace {

namespace fs = std::filesystem;

// Every file below the folder that a compilation writes and a build does not: relative path -> content.
std::map<std::string, std::string> sources_of(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (fs::recursive_directory_iterator it(folder), end; it != end; ++it) {
    std::string name = it->path().filename();
    if (it.depth() == 0 && it->is_directory() && (name == "lib" || name == "bin" || name == "build"))
      it.disable_recursion_pending();
    std::string extension = it->path().extension();
    static const std::set<std::string> text = {".cpp", ".cu", ".h", ".hpp", ".txt", ".cmake", ".py", ".json"};
    if (it->is_regular_file() && !it->is_symlink() && text.count(extension))
      files[fs::relative(it->path(), folder)] = std::string(read_file(it->path(), size_t{1} << 30).view());
  }
  return files;
}

int64_t size_of_file(const std::string& path) {
  std::error_code error;
  auto size = fs::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

int run(const std::string& a, const std::string& b, bool json) {
  for (const std::string& folder : {a, b})
    if (!fs::is_directory(folder)) throw CompileError({folder, "", "is not a folder"});
  std::string name_a = name_in_manifest(a), name_b = name_in_manifest(b);
  std::map<std::string, std::string> left = sources_of(a), right = sources_of(b);
  nlohmann::ordered_json added = nlohmann::ordered_json::array(), removed = added, changed = added,
                         sizes = nlohmann::ordered_json::object();
  for (const auto& [path, text] : left)
    if (!right.count(path))
      removed.push_back(path);
    else if (right[path] != text)
      changed.push_back(path);
  for (const auto& [path, unused] : right)
    if (!left.count(path)) added.push_back(path);
  std::vector<std::array<std::string, 2>> binaries = {{name_a + ".weights", name_b + ".weights"},
                                                      {"lib/lib" + name_a + ".so", "lib/lib" + name_b + ".so"}};
  bool binary_changed = false;
  for (const auto& [in_a, in_b] : binaries) {
    int64_t before = size_of_file(a + "/" + in_a), after = size_of_file(b + "/" + in_b);
    if (before != after) binary_changed = true;
    sizes[in_b] = {before, after};
  }
  bool same = added.empty() && removed.empty() && changed.empty() && !binary_changed;
  if (json) {
    std::cout << nlohmann::ordered_json{{"same", same},
                                        {"added", added},
                                        {"removed", removed},
                                        {"changed", changed},
                                        {"bytes", sizes}}
                     .dump(2, ' ', false, nlohmann::json::error_handler_t::replace)
              << "\n";
  } else {
    for (const auto& path : removed) std::printf("- %s\n", path.get<std::string>().c_str());
    for (const auto& path : added) std::printf("+ %s\n", path.get<std::string>().c_str());
    for (const auto& path : changed) std::printf("! %s\n", path.get<std::string>().c_str());
    for (const auto& [path, pair] : sizes.items())
      if (pair[0] != pair[1])
        std::printf("  %s: %s -> %s\n", path.c_str(), show_bytes(pair[0].get<int64_t>()).c_str(),
                    show_bytes(pair[1].get<int64_t>()).c_str());
    std::printf(same ? "no difference\n" : "%zu removed, %zu added, %zu changed\n", removed.size(), added.size(),
                changed.size());
  }
  return same ? exit_good : exit_difference;
}

}  // namespace

void add_diff_command(CLI::App& app, int* status) {
  struct Options {
    std::string a, b;
    bool json = false;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("diff", "what changed between two compilations: sources, kernels, sizes");
  command->add_option("a", o->a, "a compiled folder")->required()->type_name("DIR_A");
  command->add_option("b", o->b, "another one")->required()->type_name("DIR_B");
  command->add_flag("--json", o->json, "the differences as JSON");
  command->callback([=] { *status = run(o->a, o->b, o->json); });
}

}  // namespace metac
