#include "compiler/support/unfinished_folders.h"

#include <filesystem>
#include <mutex>
#include <set>

namespace metac {
namespace {

struct List {
  std::mutex mutex;
  std::set<std::string> paths;
};
List& list() {
  static List& instance = *new List;  // threads may use it until the process is gone
  return instance;
}

}  // namespace

void add_unfinished_folder(const std::string& path) {
  std::lock_guard lock(list().mutex);
  list().paths.insert(path);
}

void forget_unfinished_folder(const std::string& path) {
  std::lock_guard lock(list().mutex);
  list().paths.erase(path);
}

void remove_unfinished_folders() {
  list().mutex.lock();  // for ever
  for (const std::string& path : list().paths) {
    // What another thread writes meanwhile can make a removal fail; without its folder it soon stops.
    std::error_code error;
    for (int attempt = 0; attempt < 100 && std::filesystem::exists(path, error); ++attempt)
      std::filesystem::remove_all(path, error);
  }
}

}  // namespace metac
