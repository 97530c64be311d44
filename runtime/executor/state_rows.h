// Several sequences in one set of states: each is an index of every state's first axis, a row. Along the axis that grows
// they all end where the state does; what is before a shorter one is zeros. So a step puts one behind all of them, in place.
#pragma once
#include "states.h"

namespace METAC_RUNTIME_NAMESPACE {

class StateRows {
 public:
  explicit StateRows(StateSet& states) : s_(states) {}

  // False: a state of this model has no such axis, as the failure says.
  static bool check(const Program& p, Failure& failure) {
    for (int32_t k = 0; k < p.state_count; ++k) {
      const StateInfo& info = p.states[k];
      const char* const name = input_name(p, info.input);
      if (StateSet::rank_of(p, k) == 0 || info.axis == 0 || StateSet::extent_of(p, k, 0).length == 0)
        return failure.set(Status::unsupported,
                           "sequences cannot join: the first axis of state \"%s\" must be open, the batch", name);
      if (info.axis >= 0 && info.capacity < 0)
        return failure.set(Status::unsupported, "sequences cannot join: state \"%s\" is copied in every run", name);
    }
    return true;
  }

  // A row behind the others: what `from` has, which is one row. Nothing has changed where it returns false.
  bool append(const StateSet& from, Failure& failure) {
    const Program& p = *s_.program_;
    const bool first = s_.count_ == 0 || !s_.places_[0].set;
    for (int32_t k = 0; k < s_.count_; ++k)
      for (int32_t axis = 0; axis < StateSet::rank_of(p, k); ++axis) {
        const int64_t expected = axis == 0 ? 1 : first || axis == p.states[k].axis ? from.dims(k)[axis] : s_.dims(k)[axis];
        if (from.dims(k)[axis] != expected)
          return failure.set(Status::unsupported, "state \"%s\" of a sequence that joins: dim %d is %lld, expected %lld",
                             s_.name(k), axis, static_cast<long long>(from.dims(k)[axis]), static_cast<long long>(expected));
      }
    if (first) return s_.copy(from, failure);
    int64_t room = 0;  // one for all, as a run would make it
    for (int32_t k = 0; k < s_.count_; ++k)
      if (StateSet::has_room(p, k)) {
        const int64_t wanted = StateSet::room_for(length_with(from, k));
        room = wanted > room ? wanted : room;
        room = s_.places_[k].room > room ? s_.places_[k].room : room;
      }
    for (int32_t k = 0; k < s_.count_; ++k) {  // all memory first
      StateSet::Place& place = s_.places_[k];
      if (StateSet::has_room(p, k) && place.room != room && !s_.make_room(p, k, room, failure)) return false;
      const int64_t size = row_bytes(k), rows = s_.dims(k)[0], needed = size * (rows + 1) + alignment;
      if (needed <= place.now.capacity()) continue;
      if (!place.next.reserve(needed + size * (rows / 2))) return StateSet::no_memory(needed, failure);
      if (!s_.move(place.next.data(), 0, place.now.data(), {1, size * rows, 0}, failure)) return false;
      place.now.take(place.next);
      place.next.clear();
    }
    for (int32_t k = 0; k < s_.count_; ++k)
      if (!append_to(from, k, failure)) return false;
    return true;
  }

  // The last row takes the place of this one.
  bool remove(int64_t row, Failure& failure) {
    const bool last = s_.count_ == 0 || s_.dims(0)[0] == 1;
    for (int32_t k = 0; k < s_.count_ && !last; ++k) {
      const int64_t size = row_bytes(k), end = s_.dims(k)[0] - 1;
      if (row != end) {
        const Steps steps = steps_of(k);
        if (!s_.move(at(k) + row * size, steps.stride, at(k) + end * size, {steps.lists, steps.bytes, steps.stride}, failure))
          return false;
      }
      s_.own_dims(k)[0] = end;
    }
    if (last) s_.reset();
    return true;
  }

  // The first steps of all rows go; a row has none of its own there.
  bool drop_steps(int64_t count, Failure& failure) {
    for (int32_t k = 0; k < s_.count_; ++k) {
      const int32_t axis = s_.program_->states[k].axis;
      if (axis < 0) continue;
      const Steps steps = steps_of(k);
      const int64_t gone = count * steps.step;
      const StatePlace::Pieces rest{s_.dims(k)[0] * steps.lists, steps.bytes - gone, steps.stride};
      if (!s_.move(at(k), steps.stride, at(k) + gone, rest, failure)) return false;
      s_.own_dims(k)[axis] -= count;
    }
    return true;
  }

 private:
  // A row has so many lists of steps, `stride` bytes from one to the next, of which `bytes` hold something. Where nothing
  // grows it is one list.
  struct Steps {
    int64_t lists, stride, bytes, step;
  };
  static Steps steps_of(const StateSet& s, int32_t k) {
    const Program& p = *s.program_;
    const int32_t axis = p.states[k].axis;
    Steps steps{1, 0, 0, size_of(StateSet::dtype_of(p, k))};
    for (int32_t a = 1; a < axis; ++a) steps.lists *= s.dims(k)[a];
    for (int32_t a = axis < 0 ? 1 : axis + 1; a < StateSet::rank_of(p, k); ++a) steps.step *= s.dims(k)[a];
    steps.bytes = axis < 0 ? steps.step : steps.step * s.dims(k)[axis];
    steps.stride = axis < 0 ? steps.step : steps.step * s.places_[k].room;
    return steps;
  }
  Steps steps_of(int32_t k) const { return steps_of(s_, k); }
  int64_t row_bytes(int32_t k) const { return steps_of(k).lists * steps_of(k).stride; }
  char* at(int32_t k) { return static_cast<char*>(s_.places_[k].now.data()); }

  int64_t length_with(const StateSet& from, int32_t k) const {
    const int32_t axis = s_.program_->states[k].axis;
    return s_.dims(k)[axis] > from.dims(k)[axis] ? s_.dims(k)[axis] : from.dims(k)[axis];
  }

  // There is memory for it.
  bool append_to(const StateSet& from, int32_t k, Failure& failure) {
    const int32_t axis = s_.program_->states[k].axis;
    const int64_t rows = s_.dims(k)[0];
    if (axis >= 0) {
      const int64_t length = length_with(from, k), more = length - s_.dims(k)[axis];
      const Steps steps = steps_of(k);
      const int64_t shift = more * steps.step;
      const int64_t lists = rows * steps.lists;
      if (more > 0 && (!s_.move(at(k) + shift, steps.stride, at(k), {lists, steps.bytes, steps.stride}, failure) ||
                       !s_.clear(at(k), {lists, shift, steps.stride}, failure)))
        return false;
      s_.own_dims(k)[axis] = length;
    }
    const Steps steps = steps_of(k), given = steps_of(from, k);
    char* const row = at(k) + rows * row_bytes(k);
    if (!s_.clear(row, row_bytes(k) + alignment, failure) ||
        !s_.move(row + (steps.bytes - given.bytes), steps.stride, from.at(k), {given.lists, given.bytes, given.stride}, failure))
      return false;
    s_.own_dims(k)[0] = rows + 1;
    return true;
  }

  StateSet& s_;
};

}  // namespace METAC_RUNTIME_NAMESPACE
