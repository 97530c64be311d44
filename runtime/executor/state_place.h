// Where states live, and who moves them there: the host's memory here; runtime/cuda/state_place.h is a GPU's.
#pragma once
#include "../memory.h"
#include "../status.h"

namespace METAC_RUNTIME_NAMESPACE {

// What happens here happens in the order it is asked for, runs of the same context included.
struct StatePlace {
  // So many pieces of `bytes`, each so many bytes behind the last.
  struct Pieces {
    int64_t count, bytes, step;
  };

  const Allocator* allocator;  // null: the C library
  void* user;
  // Between two places, of which one may be the host's memory; `to_step`: the distance of the pieces there. As if all were
  // read before any is written.
  bool (*move)(void* user, void* to, int64_t to_step, const void* from, Pieces from_pieces, Failure& failure);
  bool (*clear)(void* user, void* data, Pieces pieces, Failure& failure);
  // Until all of that is done: the host may read what came to it and change what came from it.
  bool (*wait)(void* user, Failure& failure);
};

inline bool move_on_host(void*, void* to, int64_t to_step, const void* from, StatePlace::Pieces pieces, Failure&) {
  const bool forward = to < from || (to == from && to_step <= pieces.step);
  for (int64_t i = 0; i < pieces.count && pieces.bytes > 0; ++i) {
    const int64_t k = forward ? i : pieces.count - 1 - i;
    std::memmove(static_cast<char*>(to) + k * to_step, static_cast<const char*>(from) + k * pieces.step,
                 static_cast<size_t>(pieces.bytes));
  }
  return true;
}

inline bool clear_on_host(void*, void* data, StatePlace::Pieces pieces, Failure&) {
  for (int64_t i = 0; i < pieces.count && pieces.bytes > 0; ++i)
    std::memset(static_cast<char*>(data) + i * pieces.step, 0, static_cast<size_t>(pieces.bytes));
  return true;
}

inline StatePlace states_on_host(const Allocator* allocator) {
  return {allocator, nullptr, move_on_host, clear_on_host, [](void*, Failure&) { return true; }};
}

}  // namespace METAC_RUNTIME_NAMESPACE
