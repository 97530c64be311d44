// The threads that all libraries of a process share, whatever their models and versions.
//
// Libraries do not see each other: their symbols are hidden, they may be linked into the program, loaded with RTLD_LOCAL and
// unloaded again. So each has a note (PT_NOTE, name "metac", type 1) that says where its anchor is, a pointer to the threads
// while the library has contexts. Who makes its first context looks through the notes of what is loaded, joins the threads
// that it finds, or makes some; who ends its last context clears its anchor, and the last library ends the threads. The
// loader's lock, which dl_iterate_phdr holds, makes either of these one step for all libraries.
//
// Whose code the threads run is held by a reference until they have ended: dlclose of that library does not unload it while
// others use it, and unloads it as always when none does.
//
// Where the C library is not glibc, whose lock this is, every library has threads of its own, for all its contexts.
#pragma once
#include <dlfcn.h>
#include <link.h>

#include "usable_cpus.h"
#include "worker_threads.h"

namespace METAC_RUNTIME_NAMESPACE {

// What an anchor points to. Libraries of every version use those of whoever was first: this stays as it is, and another form
// would be another type of note.
struct SharedThreads {
  void* threads;
  void* (*join)(void* threads, int32_t most_workers);  // a client; null: no memory
  void (*leave)(void* threads, void* client);
  // Body over [0, count), an iteration taking some cost_ns, as a client that is in no other launch. `how`: launch_way(), of
  // which older libraries know 0 and that all else is a fixed split.
  void (*run)(void* threads, void* client, int64_t count, int64_t cost_ns, void (*body)(void*, int32_t, int64_t, int64_t),
              void* state, int32_t how);
  void (*end_call)(void* threads, void* client);  // the client launches nothing for a while
  void (*end)(SharedThreads* shared);             // by the last library that left, which closes `code` afterwards
  void* code;                                     // of dlopen; null: of the program itself
  std::atomic<int64_t> libraries;                 // that have contexts; changed under the loader's lock
};

// Bit 0: a fixed split. Bits 1 and 2: 0 of usual priority, 1 urgent, 2 in the background.
inline int32_t launch_way(bool fixed_split, Priority priority) {
  return (fixed_split ? 1 : 0) | (priority == Priority::usual ? 0 : priority == Priority::urgent ? 2 : 4);
}
inline Priority priority_of_way(int32_t how) {
  return (how & 2) != 0 ? Priority::urgent : (how & 4) != 0 ? Priority::background : Priority::usual;
}

// Of a library. Others read the first member alone.
struct ThreadsAnchor {
  std::atomic<SharedThreads*> shared{nullptr};
  ProcessLock lock;
  int64_t users = 0;
};

// A library has it once, for an anchor with a C name.
#define METAC_THREADS_NOTE(anchor)             \
  __asm__(                                     \
      ".pushsection .note.metac,\"a\",@note\n" \
      ".balign 4\n"                            \
      ".long 6, 8, 1\n"                        \
      ".asciz \"metac\"\n"                     \
      ".balign 4\n"                            \
      ".long " #anchor                         \
      " - ., 0\n"                              \
      ".popsection\n")

class ProcessThreads {
 public:
  // The threads of the process, with one user more in the library of `anchor`; null: no memory.
  static SharedThreads* join(ThreadsAnchor& anchor) {
    const ProcessLockHold hold(anchor.lock);
    if (anchor.users == 0) {
      SharedThreads* const made = make();
      if (made == nullptr) return nullptr;
      Step step{&anchor, made, nullptr};
      one_step(&join_or_found, step);
      if (anchor.shared != made) end(made);
    }
    ++anchor.users;
    return anchor.shared;
  }
  static void leave(ThreadsAnchor& anchor) {
    Step step{&anchor, nullptr, nullptr};
    {
      const ProcessLockHold hold(anchor.lock);
      if (--anchor.users > 0) return;
      one_step(&leave_or_last, step);
    }
    if (step.found != nullptr) end(step.found);
  }

 private:
  struct Step {
    ThreadsAnchor* anchor;
    SharedThreads* made;
    SharedThreads* found;
  };

  static SharedThreads* make() {
    void* const memory = std::malloc(sizeof(SharedThreads));
    WorkerThreads* const threads = WorkerThreads::make(usable_cpus(), false);
    if (memory == nullptr || threads == nullptr) {
      std::free(memory);
      if (threads != nullptr) threads->end();
      return nullptr;
    }
    SharedThreads* const made = new (memory)
        SharedThreads{threads, &join_threads, &leave_threads, &run_threads, &end_call, &end_threads, nullptr, {0}};
    Dl_info about;
    if (dladdr(reinterpret_cast<const void*>(&end_threads), &about) != 0 && about.dli_fname != nullptr) {
      made->code = dlopen(about.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
      if (made->code == nullptr) dlerror();
    }
    return made;
  }
  static void end(SharedThreads* shared) {
    void* const code = shared->code;
    shared->end(shared);
    if (code != nullptr) dlclose(code);
  }

  static void* join_threads(void*, int32_t most) { return WorkerThreads::Client::make(most); }
  static void leave_threads(void* threads, void* client) {
    end_call(threads, client);
    static_cast<WorkerThreads::Client*>(client)->end();
  }
  static void run_threads(void* threads, void* client, int64_t count, int64_t cost_ns, Body body, void* state, int32_t how) {
    static_cast<WorkerThreads*>(threads)->run(*static_cast<WorkerThreads::Client*>(client), count, cost_ns, body, state,
                                              (how & 1) != 0, priority_of_way(how));
  }
  static void end_call(void* threads, void* client) {
    static_cast<WorkerThreads*>(threads)->end_call(*static_cast<WorkerThreads::Client*>(client));
  }
  static void end_threads(SharedThreads* shared) {
    static_cast<WorkerThreads*>(shared->threads)->end();
    std::free(shared);
  }

#ifdef __GLIBC__
  static void one_step(int (*work)(dl_phdr_info*, size_t, void*), Step& step) { dl_iterate_phdr(work, &step); }
  static void find(Step& step) { dl_iterate_phdr(&find_in, &step); }
#else
  static void one_step(int (*work)(dl_phdr_info*, size_t, void*), Step& step) { work(nullptr, 0, &step); }
  static void find(Step&) {}
#endif

  // Called for the first of what is loaded; the lock is held until they return, and may be taken again.
  static int join_or_found(dl_phdr_info*, size_t, void* state) {
    Step& step = *static_cast<Step*>(state);
    find(step);
    SharedThreads* const shared = step.found != nullptr ? step.found : step.made;
    ++shared->libraries;
    step.anchor->shared = shared;
    return 1;
  }
  static int leave_or_last(dl_phdr_info*, size_t, void* state) {
    Step& step = *static_cast<Step*>(state);
    SharedThreads* const shared = step.anchor->shared.exchange(nullptr);
    if (--shared->libraries == 0) step.found = shared;
    return 1;
  }

  static int find_in(dl_phdr_info* loaded, size_t, void* state) {
    Step& step = *static_cast<Step*>(state);
    for (int i = 0; i < loaded->dlpi_phnum; ++i) {
      const auto& header = loaded->dlpi_phdr[i];
      if (header.p_type != PT_NOTE) continue;
      const size_t align = header.p_align == 8 ? 8 : 4;
      const char* at = reinterpret_cast<const char*>(loaded->dlpi_addr + header.p_vaddr);
      const char* const end = at + header.p_memsz;
      while (static_cast<size_t>(end - at) >= 12) {
        uint32_t name, bytes, type;
        std::memcpy(&name, at, 4), std::memcpy(&bytes, at + 4, 4), std::memcpy(&type, at + 8, 4);
        const size_t value = (12 + size_t{name} + align - 1) / align * align;
        const size_t whole = (value + bytes + align - 1) / align * align;
        if (value + bytes > static_cast<size_t>(end - at)) break;
        if (name == 6 && bytes == 8 && type == 1 && std::memcmp(at + 12, "metac", 6) == 0) {
          int32_t offset;
          std::memcpy(&offset, at + value, 4);
          const auto* anchor = reinterpret_cast<const std::atomic<SharedThreads*>*>(at + value + offset);
          if (SharedThreads* const shared = anchor->load()) return step.found = shared, 1;
        }
        if (whole >= static_cast<size_t>(end - at)) break;
        at += whole;
      }
    }
    return 0;
  }
};

}  // namespace METAC_RUNTIME_NAMESPACE
