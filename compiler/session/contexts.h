// The contexts in which a session's programs run. So many runs may be under way at once; each has threads and working memory
// of its own, which all programs that run in its place share, and keeps the contexts of programs that ran there.
#pragma once
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "compiler/jit/jit_program.h"

namespace metac {

class Contexts {
 public:
  // `most` runs at once; `threads` workers of each. 0: as many as there are usable CPUs.
  Contexts(int most, int threads);

  // A context that nobody else has, given back with the object.
  class Hold {
   public:
    Hold(Hold&& other) noexcept;
    Hold& operator=(Hold&&) = delete;
    ~Hold();
    JitProgram& context() const { return *context_; }

   private:
    friend class Contexts;
    Hold(Contexts* of, size_t place, JitProgram* context) : of_(of), place_(place), context_(context) {}
    Contexts* of_;
    size_t place_;
    JitProgram* context_;
  };
  // Waits until fewer than the most runs are under way. Throws CompileError where a context cannot be made.
  Hold take(const std::shared_ptr<const JitCode>& code);
  // The same without waiting: nothing where the most runs are under way.
  std::optional<Hold> take_free(const std::shared_ptr<const JitCode>& code);

  // Its contexts go, those in use when they are given back.
  void drop(const JitCode* code);

  struct Held {
    int64_t contexts = 0, threads = 0;  // threads: beside the callers'
    int64_t bytes = 0;                  // working memory, as of each context's last run, with what places share
    std::map<const JitCode*, int64_t> bytes_of;
  };
  Held held() const;

 private:
  struct Kept {
    std::unique_ptr<JitProgram> context;
    int64_t bytes = 0;
    bool dropped = false;
  };
  struct Place {
    bool taken = false;
    std::shared_ptr<rt::ThreadPool> threads;
    std::shared_ptr<HostMemory> memory = std::make_shared<HostMemory>();
    int64_t memory_bytes = 0;  // as of the last run
    std::map<const JitCode*, Kept> kept;
  };
  size_t choose_place(const JitCode* code);
  Hold enter(size_t place, const std::shared_ptr<const JitCode>& code, std::unique_lock<std::mutex> lock);
  void give_back(size_t place, JitProgram* context);

  int most_, threads_;  // never changed
  mutable std::mutex mutex_;
  std::condition_variable free_;
  std::vector<std::unique_ptr<Place>> places_;
};

}  // namespace metac
