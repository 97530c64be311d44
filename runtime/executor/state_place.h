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

// move() of a device. `copy(to, to_step, from, pieces)`: where the two do not overlap; false: it failed, as `failure` says.
// What overlaps goes through other memory.
template <class Copy>
bool move_apart(const Allocator& memory, void* to, int64_t to_step, const void* from, StatePlace::Pieces pieces,
                Failure& failure, Copy copy) {
  if (pieces.count == 0 || pieces.bytes == 0 || (to == from && to_step == pieces.step)) return true;
  const int64_t before_last = pieces.count - 1;
  const bool apart =
      static_cast<const char*>(to) >= static_cast<const char*>(from) + before_last * pieces.step + pieces.bytes ||
      static_cast<const char*>(from) >= static_cast<const char*>(to) + before_last * to_step + pieces.bytes;
  if (apart) return copy(to, to_step, from, pieces);
  const size_t bytes = static_cast<size_t>(pieces.count * pieces.bytes);
  void* const between = memory.allocate(memory.user, bytes, static_cast<size_t>(alignment));
  if (between == nullptr) return failure.set(Status::out_of_memory, "no memory to move %zu bytes of a state", bytes);
  const bool good = copy(between, pieces.bytes, from, pieces) &&
                    copy(to, to_step, between, StatePlace::Pieces{pieces.count, pieces.bytes, pieces.bytes});
  memory.release(memory.user, between, bytes);  // waits for what uses it
  return good;
}

inline StatePlace states_on_host(const Allocator* allocator) {
  return {allocator, nullptr, move_on_host, clear_on_host, [](void*, Failure&) { return true; }};
}

}  // namespace METAC_RUNTIME_NAMESPACE
