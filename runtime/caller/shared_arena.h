// Working memory of contexts that never run at once (metac_model_options.arena), whatever libraries they are of.
#pragma once
#include <atomic>
#include <new>
#include <type_traits>

#include "../executor/executor.h"
#include "../process/shared_by_contexts.h"
#include "memory.h"

namespace METAC_RUNTIME_NAMESPACE {

// The bytes of this struct are what libraries of a process agree upon: `layout` tells one of another version.
class SharedArena {
 public:
  static Status create(metac_model_allocate allocate, metac_model_release release, void* user, metac_model_arena** result) {
    if (result == nullptr) return Status::invalid_argument;
    *result = nullptr;
    if ((allocate == nullptr) != (release == nullptr)) return Status::invalid_argument;
    void* const memory = std::aligned_alloc(alignment, static_cast<size_t>(align_up(sizeof(SharedArena))));
    if (memory == nullptr) return Status::out_of_memory;
    *result = reinterpret_cast<metac_model_arena*>(new (memory) SharedArena(allocate, release, user));
    return Status::ok;
  }
  static void destroy(metac_model_arena* arena) {
    if (arena != nullptr) reinterpret_cast<SharedArena*>(arena)->leave();
  }
  // One that this library can use; null: it is of another version.
  static SharedArena* of(metac_model_arena* arena) {
    SharedArena* const shared = reinterpret_cast<SharedArena*>(arena);
    return shared->layout_ == known_layout ? shared : nullptr;
  }
  void join() { users_.fetch_add(1, std::memory_order_relaxed); }
  void leave() {
    if (users_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
    this->~SharedArena();
    std::free(this);
  }
  bool begin_run() { return !in_use_.exchange(true, std::memory_order_acquire); }
  void end_run() { in_use_.store(false, std::memory_order_release); }
  WorkingMemory<Block>& memory() { return memory_; }

 private:
  static constexpr uint64_t known_layout = 0x6d65746163410001;  // "metacA", and 1

  SharedArena(metac_model_allocate allocate, metac_model_release release, void* user) {
    source_.begin(allocate, release, user);
    for (Block* block : {&memory_.arena, &memory_.scratch, &memory_.slices}) block->take_from(source_.allocator());
  }
  ~SharedArena() = default;

  const uint64_t layout_ = known_layout;
  std::atomic<int32_t> users_{1};  // who made it, and contexts
  std::atomic<bool> in_use_{false};
  CallerLog silent_;
  CallerMemory source_{silent_};
  WorkingMemory<Block> memory_;
};

// A context's part in one, or in none.
class ArenaShare {
 public:
  // Before the context's first run. `arena` may be null.
  template <class Device>
  bool join(metac_model_arena* arena, Failure& failure) {
    if (arena == nullptr) return true;
    if (!std::is_same_v<Device, ThreadPool>)
      return failure.set(Status::unsupported, "options.arena is the host's memory, and this library runs on a GPU");
    SharedArena* const shared = SharedArena::of(arena);
    if (shared == nullptr)
      return failure.set(Status::unsupported, "options.arena was made by a library of another version of metac");
    shared->join();
    arena_.take(shared);
    return true;
  }
  template <class Device>
  void give_to(ExecutorOn<Device>& executor) const {
    if constexpr (std::is_same_v<Device, ThreadPool>)
      if (arena_.get() != nullptr) executor.work_in(&arena_->memory());
  }

  // A run of one of its contexts, while which no other begins.
  class Run {
   public:
    explicit Run(const ArenaShare& share) : arena_(share.arena_.get()), begun_(arena_ == nullptr || arena_->begin_run()) {}
    ~Run() {
      if (arena_ != nullptr && begun_) arena_->end_run();
    }
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;
    explicit operator bool() const { return begun_; }

   private:
    SharedArena* const arena_;
    const bool begun_;
  };

 private:
  Joined<SharedArena> arena_;
};

}  // namespace METAC_RUNTIME_NAMESPACE
