#include "compiler/jit/precompiled_prelude.h"

#include <map>
#include <mutex>

#include "compiler/jit/cache/file_lock.h"
#include "compiler/jit/cache/object_cache.h"
#include "compiler/jit/clang_compiler.h"
#include "compiler/support/trace.h"

namespace metac {

const std::string& precompiled_prelude(const CpuTarget& cpu) {
  static std::mutex mutex;
  static std::map<std::string, std::string>& known = *new std::map<std::string, std::string>;  // see KernelStore::of_process
  const std::string key = "precompiled prelude\n" + compiler_identity(cpu);
  std::lock_guard lock(mutex);
  std::string& tree = known[key];
  if (!tree.empty()) return tree;
  // Past the counts of hits and misses, which are those of kernels.
  ObjectCache& cache = ObjectCache::of_user();
  if (std::optional<std::string> kept = cache.load(key)) return tree = *kept;
  const std::unique_ptr<FileLock> held = cache.lock(key);
  if (held && held->held())
    if (std::optional<std::string> kept = cache.load(key)) return tree = *kept;
  const trace::Span span("session", "compile the device headers");
  tree = compile_prelude(cpu);
  cache.store(key, tree);
  return tree;
}

}  // namespace metac
