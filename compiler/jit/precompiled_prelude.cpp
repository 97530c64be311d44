#include "compiler/jit/precompiled_prelude.h"

#include <map>
#include <mutex>

#include "compiler/jit/clang_compiler.h"
#include "compiler/jit/object_cache.h"

namespace metac {

const std::string& precompiled_prelude(const CpuTarget& cpu) {
  static std::mutex mutex;
  static std::map<std::string, std::string> known;
  const std::string key = "precompiled prelude\n" + compiler_identity(cpu);
  std::lock_guard lock(mutex);
  std::string& tree = known[key];
  if (!tree.empty()) return tree;
  // Past the counts of hits and misses, which are those of kernels.
  ObjectCache& cache = ObjectCache::of_user();
  if (std::optional<std::string> kept = cache.load(key)) return tree = *kept;
  tree = compile_prelude(cpu);
  cache.store(key, tree);
  return tree;
}

}  // namespace metac
