// Memory of a context that the caller's functions give (metac_model_options.allocate).
#pragma once
#include "../memory.h"
#include "log.h"

namespace METAC_RUNTIME_NAMESPACE {

class CallerMemory {
 public:
  explicit CallerMemory(const CallerLog& log) : log_(log) {}
  CallerMemory(const CallerMemory&) = delete;
  CallerMemory& operator=(const CallerMemory&) = delete;

  // Before the context takes any.
  void begin(metac_model_allocate allocate, metac_model_release release, void* user) {
    allocate_ = allocate;
    release_ = release;
    user_ = user;
  }
  // For blocks; null: there are no functions, memory is the C library's.
  const Allocator* allocator() const { return allocate_ == nullptr ? nullptr : &allocator_; }

 private:
  // A function that throws gives nothing.
  static void* take(void* state, size_t bytes, size_t wanted) {
    const CallerMemory& self = *static_cast<const CallerMemory*>(state);
    void* memory = nullptr;
    if (!guarded([&] { memory = self.allocate_(self.user_, bytes, wanted); })) return nullptr;
    if (reinterpret_cast<uintptr_t>(memory) % wanted == 0) return memory;
    self.log_.warn("options.allocate gave memory at %p, which is no multiple of %zu: it is given back", memory, wanted);
    give_back(state, memory, bytes);
    return nullptr;
  }
  static void give_back(void* state, void* memory, size_t bytes) {
    const CallerMemory& self = *static_cast<const CallerMemory*>(state);
    guarded([&] { self.release_(self.user_, memory, bytes); });
  }

  const CallerLog& log_;
  metac_model_allocate allocate_ = nullptr;
  metac_model_release release_ = nullptr;
  void* user_ = nullptr;
  const Allocator allocator_{&take, &give_back, this};
};

}  // namespace METAC_RUNTIME_NAMESPACE
