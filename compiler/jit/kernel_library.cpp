// Few modules, because every module begins a compiler (a few ms) and every linked object costs too; but
// enough of them to keep all cores busy and to let a changed kernel miss the cache alone with its neighbours. The
// grouping depends on the kernels' texts only, never on what the cache holds, so that the same program always finds the
// same entries.
#include "compiler/jit/kernel_library.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <numeric>
#include <thread>

#include "compiler/jit/clang_compiler.h"
#include "compiler/jit/object_cache.h"
#include "compiler/jit/precompiled_prelude.h"
#include "runtime/usable_cpus.h"

namespace metac {
namespace {

constexpr size_t module_bytes = 24 << 10;  // of kernel text; measured in docs/decisions/kernel_cache.md

using Group = std::vector<const KernelSource*>;

std::vector<Group> group_kernels(const std::vector<KernelSource>& kernels) {
  std::vector<Group> groups;
  size_t bytes = module_bytes;
  for (const KernelSource& kernel : kernels) {
    if (bytes + kernel.text.size() > module_bytes) groups.emplace_back(), bytes = 0;
    groups.back().push_back(&kernel);
    bytes += kernel.text.size();
  }
  return groups;
}

// work(i) for every i below count, on several threads; the first exception comes out.
void in_parallel(int threads, size_t count, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  auto run = [&] {
    for (size_t i; (i = next++) < count;) {
      try {
        work(i);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        next = count;
      }
    }
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < std::min<size_t>(threads, count); ++i) others.emplace_back(run);
  run();
  for (std::thread& thread : others) thread.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace

std::string module_text(const std::vector<const KernelSource*>& kernels) {
  std::string text = prelude_line;
  for (const KernelSource* kernel : kernels) text += "\n" + kernel->text;
  return text;
}

KernelLibrary::KernelLibrary(const std::vector<KernelSource>& kernels, const CpuTarget& cpu, const JitOptions& options) {
  if (kernels.empty()) return;
  std::vector<Group> groups = group_kernels(kernels);
  std::vector<std::string> objects(groups.size());
  ObjectCache& cache = options.cache ? *options.cache : ObjectCache::of_user();
  const std::string identity = compiler_identity(cpu);

  // The largest first: the last one to finish decides when all are done.
  std::vector<std::string> texts;
  for (const Group& group : groups) texts.push_back(module_text(group));
  std::vector<size_t> order(groups.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return texts[a].size() > texts[b].size(); });

  in_parallel(options.threads > 0 ? options.threads : metac_runtime::usable_cpus(), groups.size(), [&](size_t i) {
    const std::string& text = texts[order[i]];
    objects[order[i]] = cache.get_or_make(identity + text, [&] { return compile_object(text, cpu); });
  });

  code_ = std::make_unique<LinkedCode>(std::move(objects));
  std::vector<std::string> names;
  for (const KernelSource& kernel : kernels) names.push_back(kernel.name);
  for (void* address : code_->addresses(names)) functions_.push_back(reinterpret_cast<rt::KernelFunction>(address));
}

}  // namespace metac
