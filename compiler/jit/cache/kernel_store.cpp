#include "compiler/jit/cache/kernel_store.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <numeric>
#include <system_error>
#include <thread>

#include "compiler/jit/cache/file_lock.h"
#include "compiler/jit/cache/object_cache.h"
#include "compiler/jit/clang_compiler.h"
#include "compiler/jit/precompiled_prelude.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/hashing.h"
#include "compiler/support/interruption.h"
#include "compiler/support/trace.h"
#include "runtime/process/usable_cpus.h"

namespace metac {

// One kernel that is asked for. Kernels are grouped by their texts alone, never by what is found: processes that begin the
// same program at once form the same groups, and wait for one another's.
struct KernelStore::Wanted {
  std::string symbol, text, key;
  std::vector<StoredKernel*> results;  // where it is given out: a program may name the same code twice
};

namespace {

// Of kernel text: every module begins a compiler (a few ms) and every linked object costs too, and all cores want work
// (docs/decisions/kernel_cache.md).
constexpr size_t module_bytes = 24 << 10;

// work(i) for every i below count, on several threads; the first exception comes out.
void in_parallel(int threads, size_t count, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  const Interruption* const interruption = Interruption::of_thread();
  auto run = [&] {
    const Interruption::Scope scope(interruption);
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
  try {
    for (size_t i = 1; i < std::min<size_t>(threads, count); ++i) others.emplace_back(run);
  } catch (const std::system_error&) {  // as many as the system gives; this one does the rest
  }
  run();
  for (std::thread& thread : others) thread.join();
  if (error) std::rethrow_exception(error);
}

// The hash of all but the texts that decides what code comes out of them.
std::string hashed_identity(const CpuTarget& cpu) {
  static std::mutex mutex;
  static std::map<std::string, std::string>& known = *new std::map<std::string, std::string>;
  const std::string identity = compiler_identity(cpu);
  std::lock_guard lock(mutex);
  std::string& hash = known[identity];
  if (hash.empty()) hash = sha256_hex(identity);
  return hash;
}

}  // namespace

KernelStore& KernelStore::of_process() {
  static KernelStore& store = *new KernelStore(ObjectCache::of_user());
  return store;
}

bool KernelStore::find_in_memory(Wanted& wanted) {
  std::lock_guard lock(mutex_);
  const auto found = kept_.find(wanted.symbol);
  if (found == kept_.end()) return false;
  std::shared_ptr<const LinkedCode> code = found->second.code.lock();
  if (!code) {
    kept_.erase(found);
    return false;
  }
  for (StoredKernel* result : wanted.results) *result = {found->second.function, code, KernelOrigin::memory};
  return true;
}

// Links an object, or takes it where it is linked already, and notes the kernels asked for.
void KernelStore::link(std::vector<Wanted*> kernels, const std::string& object_name, std::string object,
                       KernelOrigin origin) {
  std::shared_ptr<const LinkedCode> code;
  {
    std::lock_guard lock(mutex_);
    if (const auto found = objects_.find(object_name); found != objects_.end()) code = found->second.lock();
  }
  if (!code || code->is_lost()) {
    const trace::Span span("session", "link kernels");
    std::vector<std::string> objects;
    objects.push_back(std::move(object));
    code = std::make_shared<const LinkedCode>(std::move(objects));
  }
  std::vector<std::string> symbols;
  for (const Wanted* wanted : kernels) symbols.push_back(wanted->symbol);
  const std::vector<void*> addresses = code->addresses(symbols);
  std::lock_guard lock(mutex_);
  if (objects_.size() >= 64) std::erase_if(objects_, [](const auto& entry) { return entry.second.expired(); });
  if (kept_.size() >= 1024) std::erase_if(kept_, [](const auto& entry) { return entry.second.code.expired(); });
  objects_[object_name] = code;
  for (size_t i = 0; i < kernels.size(); ++i) {
    const auto function = reinterpret_cast<rt::KernelFunction>(addresses[i]);
    kept_[symbols[i]] = {code, function};
    for (StoredKernel* result : kernels[i]->results) *result = {function, code, origin};
  }
}

// `objects`: those that this call has read, by name.
bool KernelStore::find_on_disk(Wanted& wanted, std::map<std::string, std::string>& objects) {
  const std::optional<std::string> name = cache_.load(wanted.key);
  if (!name) return false;
  auto found = objects.find(*name);
  if (found == objects.end()) {
    std::optional<std::string> object = cache_.load_named(*name);
    if (!object) return false;  // it went, its kernel's entry did not
    found = objects.emplace(*name, std::move(*object)).first;
  }
  link({&wanted}, *name, found->second, KernelOrigin::disk);
  return true;
}

std::string KernelStore::symbols_of(const std::vector<Wanted*>& kernels) {
  std::string text;
  for (const Wanted* wanted : kernels) text += wanted->symbol + "\n";
  return text;
}

void KernelStore::make(const std::vector<Wanted*>& group, const CpuTarget& cpu) {
  Interruption::check();
  const std::unique_ptr<FileLock> lock = cache_.lock("group of kernels\n" + symbols_of(group));
  // Others may have made some of them meanwhile, or all.
  std::vector<Wanted*> missing;
  std::map<std::string, std::string> objects;
  for (Wanted* wanted : group)
    if (!wanted->results[0]->function && !find_in_memory(*wanted) && !find_on_disk(*wanted, objects))
      missing.push_back(wanted);
  if (missing.empty()) return;
  std::string text = prelude_line;
  for (const Wanted* wanted : missing) text += "\n" + wanted->text;
  const trace::Span span("session", concat("compile ", missing.size(), " kernels"),
                         trace::on() ? trace::Arguments{{"kernels", symbols_of(missing)}} : trace::Arguments());
  cache_.count(0, static_cast<int64_t>(missing.size()));
  std::string object = compile_object(text, cpu);
  const std::string key = compiler_identity(cpu) + text, name = ObjectCache::name_of(key);
  cache_.store(key, object);
  for (const Wanted* wanted : missing) cache_.store(wanted->key, name);
  link(missing, name, std::move(object), KernelOrigin::compiled);
}

std::vector<StoredKernel> KernelStore::get(const std::vector<KernelSource>& kernels, const CpuTarget& cpu, int threads) {
  std::vector<StoredKernel> results(kernels.size());
  if (kernels.empty()) return results;
  const std::string identity = hashed_identity(cpu);
  std::vector<std::unique_ptr<Wanted>> wanted;
  std::map<std::string, Wanted*> by_symbol;
  for (size_t i = 0; i < kernels.size(); ++i) {
    const std::string key = concat("kernel\n", identity, "\n", text_named(kernels[i], ""));
    const std::string symbol = "kernel_" + sha256_hex(key).substr(0, 40);
    Wanted*& one = by_symbol[symbol];
    if (!one) {
      wanted.push_back(std::make_unique<Wanted>());
      one = wanted.back().get();
      *one = {symbol, text_named(kernels[i], symbol), key, {}};
    }
    one->results.push_back(&results[i]);
  }

  std::vector<std::vector<Wanted*>> groups;
  size_t bytes = module_bytes;
  for (const std::unique_ptr<Wanted>& one : wanted) {
    if (bytes + one->text.size() > module_bytes) groups.emplace_back(), bytes = 0;
    groups.back().push_back(one.get());
    bytes += one->text.size();
  }

  std::map<std::string, std::string> objects;
  std::vector<size_t> work(groups.size(), 0);
  int64_t hits = 0;
  for (size_t g = 0; g < groups.size(); ++g)
    for (Wanted* one : groups[g]) {
      if (find_in_memory(*one)) continue;
      if (find_on_disk(*one, objects))
        ++hits;
      else
        work[g] += one->text.size();
    }
  cache_.count(hits, 0);
  // The largest first: the last one to finish decides when all are done.
  std::vector<size_t> order;
  for (size_t g = 0; g < groups.size(); ++g)
    if (work[g] > 0) order.push_back(g);
  if (order.empty()) return results;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return work[a] > work[b]; });
  in_parallel(threads > 0 ? threads : metac_runtime::usable_cpus(), order.size(),
              [&](size_t i) { make(groups[order[i]], cpu); });
  return results;
}

}  // namespace metac
