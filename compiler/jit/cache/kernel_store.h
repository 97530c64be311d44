// Kernels as machine code, one by one: each is looked up by the hash of all that decides its code (compiler, processor,
// text without its name), in this process first, then in the user's cache, and is compiled where neither has it. What is new
// is compiled in modules of several kernels; what is found is never compiled again because its neighbours are new.
//
// On disk a kernel is an entry that names the entry of the object it lies in (docs/decisions/kernel_cache.md). In the
// process an object is linked once, whoever asks for its kernels, and unlinked with the last of them.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "compiler/jit/kernel_linker.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/program/program.h"

namespace metac {

class ObjectCache;

enum class KernelOrigin { memory, disk, compiled };

struct StoredKernel {
  rt::KernelFunction function = nullptr;
  std::shared_ptr<const LinkedCode> code;  // keeps the function
  KernelOrigin origin = KernelOrigin::memory;
};

class KernelStore {
 public:
  // `cache` must outlive the store.
  explicit KernelStore(ObjectCache& cache) : cache_(cache) {}
  // Over the user's cache; never destroyed, for threads may still compile when a process ends.
  static KernelStore& of_process();

  // By the position in `kernels`. `threads` compile at once; 0: one per usable CPU. Thread-safe; two that ask for the same
  // new kernels compile them once. Throws KernelCompileError, CompileError.
  std::vector<StoredKernel> get(const std::vector<KernelSource>& kernels, const CpuTarget& cpu, int threads = 0);

  ObjectCache& cache() { return cache_; }

 private:
  struct Wanted;
  struct Kept {
    std::weak_ptr<const LinkedCode> code;
    rt::KernelFunction function = nullptr;
  };
  static std::string symbols_of(const std::vector<Wanted*>& kernels);  // a line each
  bool find_in_memory(Wanted& wanted);
  bool find_on_disk(Wanted& wanted, std::map<std::string, std::string>& objects);
  void link(std::vector<Wanted*> kernels, const std::string& object_name, std::string object, KernelOrigin origin);
  void make(const std::vector<Wanted*>& group, const CpuTarget& cpu);

  ObjectCache& cache_;
  std::mutex mutex_;
  std::map<std::string, Kept> kept_;                                 // by the kernel's name in machine code
  std::map<std::string, std::weak_ptr<const LinkedCode>> objects_;   // by the name of their entry
};

}  // namespace metac
