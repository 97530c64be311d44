// The states of a context: values that one run of a model hands to the next (Program::states). They are the last inputs and
// the last outputs of a program, and whoever calls it gives the others alone.
//
// A state of one shape has two places that trade roles, or one where a run may write over what it read. One that grows in
// its place (StateInfo::capacity) has room behind the data along its axis; where a run needs more the room is doubled, and
// only then anything is copied. After a reset a state is zeros, as long as nothing along the axis that grows, and as long
// along other open axes as the other inputs say. A run that fails leaves all states as they were.
#pragma once
#include "executor.h"
#include "state_place.h"

namespace METAC_RUNTIME_NAMESPACE {

class StateSet {
 public:
  // For programs with the states of this one. False: no memory.
  bool create(const Program& program) {
    count_ = program.state_count;
    rank_ = 1;
    for (int32_t k = 0; k < count_; ++k) rank_ = rank_of(program, k) > rank_ ? rank_of(program, k) : rank_;
    program_ = &program;
    return count_ == 0 || (places_.allocate(count_) && dims_.allocate(int64_t{count_} * rank_));
  }
  // Where they are; the host's memory as a rule. Behind create(), before there is any.
  void live_in(const StatePlace& where) {
    where_ = where;
    for (int32_t k = 0; k < count_; ++k)
      places_[k].now.take_from(where.allocator), places_[k].next.take_from(where.allocator);
  }
  const StatePlace& where() const { return where_; }
  int32_t count() const { return count_; }

  // From now on for another program of the same model, made for other shapes: what is kept otherwise there is moved. Nothing
  // has changed where it returns false. The old program is not needed any more.
  bool move_to(const Program& program, Failure& failure) {
    const Program& before = *program_;
    const auto moves = [&](int32_t k) { return places_[k].set && has_room(before, k) != has_room(program, k); };
    for (int32_t k = 0; k < count_; ++k) {
      if (!moves(k)) continue;
      Block& next = places_[k].next;
      const Program& with_room = has_room(program, k) ? program : before;
      const Rows rows = rows_of(with_room, k);
      const int64_t room = has_room(program, k) ? room_for(dims(k)[with_room.states[k].axis]) : 0;
      const int64_t size = room > 0 ? rows.count * rows.step * room : rows.count * rows.bytes;
      if (size > most_bytes || !next.reserve(size + alignment)) return no_memory(size, failure);
      const int64_t to_step = room > 0 ? rows.step * room : rows.bytes;
      const int64_t from_step = room > 0 ? rows.bytes : rows.step * places_[k].room;
      if (!clear(next.data(), next.capacity(), failure) ||
          !move(next.data(), to_step, at(k), {rows.count, rows.bytes, from_step}, failure))
        return false;
    }
    for (int32_t k = 0; k < count_; ++k) {
      if (!moves(k)) continue;
      places_[k].now.take(places_[k].next);
      places_[k].next.clear();
      if (has_room(program, k)) places_[k].room = room_for(dims(k)[program.states[k].axis]);
    }
    program_ = &program;
    return true;
  }

  void reset() {
    for (int32_t k = 0; k < count_; ++k) places_[k].set = false;
  }

  // Fills in the views of the states behind those of `inputs` and `outputs` that the caller has. The memory for what the run
  // makes is there when it returns true.
  template <class Executor>
  bool begin(Executor& executor, InputView* inputs, OutputView* outputs, Failure& failure) {
    if (count_ == 0) return true;
    const Program& p = *executor.program();
    bool grows = false;
    for (int32_t k = 0; k < count_; ++k) {
      const StateInfo& info = p.states[k];
      places_[k].fresh = !places_[k].set;
      if (!places_[k].set && !begin_with_zeros(p, k, inputs, failure)) return false;
      inputs[info.input] = {places_[k].now.data(), dims(k), rank_of(p, k), 0, true};
      outputs[info.output] = {nullptr, 0, false, true};
      grows |= info.axis >= 0;
    }
    if (grows && executor.bind_shapes(inputs, p.input_count) != Status::ok) {
      failure = executor.failure();
      return false;
    }
    int64_t room = 0;  // the same for all, as kernels may serve several of them
    for (int32_t k = 0; k < count_; ++k)
      if (p.states[k].capacity >= 0) {
        const int64_t length = executor.output_dim(p.states[k].output, p.states[k].axis);
        if (length < 0) return failure.set(Status::internal, "the length of a state is not known before the run");
        const int64_t wanted = length > places_[k].room ? room_for(length) : places_[k].room;
        room = wanted > room ? wanted : room;
      }
    for (int32_t k = 0; k < count_; ++k) {
      const StateInfo& info = p.states[k];
      Place& place = places_[k];
      if (info.capacity >= 0) {
        if (place.room != room && !make_room(p, k, room, failure)) return false;
        inputs[info.input].data = place.now.data();
        inputs[info.input].capacity = place.room;
      } else if (info.kept == StateMemory::stays) {
        continue;
      } else if (info.kept == StateMemory::written_over) {
        outputs[info.output] = {place.now.data(), bytes(p, k), false, true};
      } else {
        const int64_t needed = info.axis >= 0 ? executor.output_bytes(info.output) : bytes(p, k);
        if (needed < 0) continue;  // the data decide: it comes out of the context's memory
        if (!reserve(place.next, needed, info.axis >= 0, failure)) return false;
        outputs[info.output] = {place.next.data(), needed, false, true};
      }
    }
    return true;
  }

  // Instead of a run, or behind one that failed: what had no value has none.
  void abandon() {
    for (int32_t k = 0; k < count_; ++k) places_[k].set = places_[k].set && !places_[k].fresh;
  }

  // Behind a run that was good: what it made is the states' value.
  template <class Executor>
  bool end(Executor& executor, const OutputView* outputs, Failure& failure) {
    if (count_ == 0) return true;
    const Program& p = *executor.program();
    for (int32_t k = 0; k < count_; ++k) {  // nothing has changed where there is no memory for one of them
      const StateInfo& info = p.states[k];
      if (is_in_place(info) || outputs[info.output].data != nullptr) continue;
      const int64_t made = executor.output_bytes(info.output);
      if (!reserve(places_[k].next, made, true, failure)) return false;
      if (!move(places_[k].next.data(), 0, executor.output_data(info.output), {1, made, 0}, failure)) return false;
    }
    for (int32_t k = 0; k < count_; ++k) {
      const StateInfo& info = p.states[k];
      if (info.kept == StateMemory::two_places) places_[k].now.take(places_[k].next);
      for (int32_t axis = 0; axis < rank_of(p, k); ++axis) own_dims(k)[axis] = executor.output_dim(info.output, axis);
    }
    return true;
  }

  // ---- for callers ----
  // Whether there has been a value since the last reset.
  bool has_value(int32_t k) const { return places_[k].set; }
  const int64_t* dims(int32_t k) const { return dims_.data() + int64_t{k} * rank_; }
  int32_t rank(int32_t k) const { return rank_of(*program_, k); }
  int64_t bytes(int32_t k) const { return bytes(*program_, k); }
  int64_t held_bytes() const {
    int64_t all = 0;
    for (int32_t k = 0; k < count_; ++k) all += places_[k].now.capacity() + places_[k].next.capacity();
    return all;
  }

  // The elements, contiguous and row-major.
  bool get(int32_t k, void* to, Failure& failure) const {
    const Pieces stored = stored_pieces(k);
    return move(to, stored.bytes, at(k), stored, failure) && where_.wait(where_.user, failure);
  }

  // from: the elements; null: zeros.
  bool set(int32_t k, const int64_t* dims_given, const void* from, Failure& failure) {
    const Program& p = *program_;
    for (int32_t axis = 0; axis < rank_of(p, k); ++axis) {
      const Extent& extent = extent_of(p, k, axis);
      const int32_t symbol = symbol_of(p, k, axis);
      const int64_t least = extent.length == 0 ? extent.value : symbol >= 0 ? p.symbols[symbol].min : 0;
      const int64_t most = extent.length == 0 ? extent.value : symbol >= 0 ? p.symbols[symbol].max : 0;
      if (dims_given[axis] < least || dims_given[axis] > most)
        return failure.set(Status::invalid_argument, "state \"%s\": dim %d is %lld, expected %lld to %lld", name(k), axis,
                           static_cast<long long>(dims_given[axis]), static_cast<long long>(least),
                           static_cast<long long>(most));
    }
    const int64_t size = bytes_of_dims(dtype_of(p, k), dims_given, rank_of(p, k));
    if (size < 0 || size > most_bytes) return failure.set(Status::invalid_argument, "state \"%s\" is too large", name(k));
    int64_t before[most_rank];  // what it was, should there be no memory
    for (int32_t axis = 0; axis < rank_of(p, k); ++axis) before[axis] = dims(k)[axis], own_dims(k)[axis] = dims_given[axis];
    const bool was_set = places_[k].set;
    places_[k].set = true;
    if (!make_place(p, k, failure)) {
      for (int32_t axis = 0; axis < rank_of(p, k); ++axis) own_dims(k)[axis] = before[axis];
      places_[k].set = was_set;
      return false;
    }
    const Pieces stored = stored_pieces(k);
    if (from == nullptr)  // with room they are zeros
      places_[k].set = has_room(p, k) || clear(at(k), bytes(p, k), failure);
    else
      places_[k].set = move(at(k), stored.step, from, {stored.count, stored.bytes, stored.bytes}, failure) &&
                       where_.wait(where_.user, failure);
    return places_[k].set;
  }

  // States that grow keep their first `length` steps. False: one is shorter.
  bool truncate(int64_t length, Failure& failure) {
    const Program& p = *program_;
    bool any = false;
    for (int32_t k = 0; k < count_; ++k) {
      const int32_t axis = p.states[k].axis;
      if (axis < 0) continue;
      any = true;
      const int64_t now = places_[k].set ? dims(k)[axis] : 0;
      if (length < 0 || length > now)
        return failure.set(Status::invalid_argument, "state \"%s\" has %lld steps, of which %lld are to stay", name(k),
                           static_cast<long long>(now), static_cast<long long>(length));
    }
    if (!any) return failure.set(Status::invalid_argument, "no state of this model grows");
    return shorten(length, failure);
  }
  // The same of those that are longer; the others stay.
  bool shorten(int64_t length, Failure& failure) {
    const Program& p = *program_;
    for (int32_t k = 0; k < count_; ++k)
      if (const int32_t axis = p.states[k].axis; axis >= 0 && places_[k].set && dims(k)[axis] > length) {
        if (!has_room(p, k) && !squeeze(p, k, length, failure)) return false;
        own_dims(k)[axis] = length;
      }
    return true;
  }

  // Steps of the states that grow; -1: none does.
  int64_t length() const {
    for (int32_t k = 0; k < count_; ++k)
      if (program_->states[k].axis >= 0) return places_[k].set ? dims(k)[program_->states[k].axis] : 0;
    return -1;
  }
  // Whether truncate() takes back all that a run changed.
  bool may_go_back() const {
    bool all = count_ > 0;
    for (int32_t k = 0; k < count_; ++k)
      all &= program_->states[k].axis >= 0 || program_->states[k].kept == StateMemory::stays;
    return all;
  }

  // What states of so many steps need, and with the room that they have for more; other open dims are the least that they
  // may be.
  void bytes_of_length(int64_t length, int64_t* needed, int64_t* with_room) const {
    *needed = *with_room = 0;
    for (int32_t k = 0; k < count_; ++k) {
      const StateInfo& info = program_->states[k];
      int64_t size = size_of(dtype_of(*program_, k));
      for (int32_t axis = 0; axis < rank_of(*program_, k); ++axis)
        if (const Extent& extent = extent_of(*program_, k, axis); axis != info.axis && extent.length == 0)
          size *= extent.value;
      const int64_t places = info.kept == StateMemory::two_places ? 2 : 1, steps = info.axis >= 0 ? length : 1;
      *needed += size * steps;
      *with_room +=
          info.capacity >= 0 ? size * room_for(steps) : places * (info.axis >= 0 && places == 2 ? 2 : 1) * size * steps;
    }
  }
  // Zeros of so many steps, other open dims as above.
  bool set_length(int64_t length, Failure& failure) {
    for (int32_t k = 0; k < count_; ++k) {
      int64_t dims_set[most_rank];
      for (int32_t axis = 0; axis < rank_of(*program_, k); ++axis) {
        const Extent& extent = extent_of(*program_, k, axis);
        dims_set[axis] = axis == program_->states[k].axis ? length : extent.length == 0 ? extent.value : 1;
      }
      if (!set(k, dims_set, nullptr, failure)) return false;
    }
    return true;
  }

  // The values of another context of the same library.
  bool copy(const StateSet& other, Failure& failure) {
    if (&other == this) return true;
    if (!other.where_.wait(other.where_.user, failure)) return false;  // it may be another device's, or stream's
    for (int32_t k = 0; k < count_; ++k) {                             // memory first: nothing changes where there is none
      if (!other.places_[k].set) continue;
      const int64_t size = other.stored_bytes(k);
      if (!places_[k].next.reserve(size + alignment)) return no_memory(size, failure);
    }
    for (int32_t k = 0; k < count_; ++k) {
      Place& place = places_[k];
      const Place& from = other.places_[k];
      if (!from.set) {
        place.set = false;
        continue;
      }
      if (!move(place.next.data(), 0, from.now.data(), {1, other.stored_bytes(k), 0}, failure)) return false;
      place.now.take(place.next);
      place.set = true;
      place.room = from.room;
      for (int32_t axis = 0; axis < rank_; ++axis) own_dims(k)[axis] = other.dims(k)[axis];
      place.next.clear();
    }
    return true;
  }

  const char* name(int32_t k) const { return input_name(*program_, program_->states[k].input); }

 private:
  friend class StateRows;
  static constexpr int32_t most_rank = 64;
  static constexpr int64_t least_room = 64;
  using Pieces = StatePlace::Pieces;
  struct Place {
    Block now, next;
    int64_t room;     // along the axis that grows
    bool set, fresh;  // it has a value; only since the last begin()
  };

  static bool has_room(const Program& p, int32_t k) { return p.states[k].capacity >= 0; }
  static bool is_in_place(const StateInfo& info) {
    return info.kept == StateMemory::grows || info.kept == StateMemory::stays;
  }
  bool move(void* to, int64_t to_step, const void* from, Pieces pieces, Failure& failure) const {
    return pieces.bytes == 0 || where_.move(where_.user, to, to_step, from, pieces, failure);
  }
  bool clear(void* data, Pieces pieces, Failure& failure) const {
    return pieces.bytes == 0 || where_.clear(where_.user, data, pieces, failure);
  }
  bool clear(void* data, int64_t bytes, Failure& failure) const { return clear(data, {1, bytes, 0}, failure); }
  int64_t* own_dims(int32_t k) { return dims_.data() + int64_t{k} * rank_; }
  char* at(int32_t k) const { return static_cast<char*>(places_[k].now.data()); }
  static const Buffer& buffer_of(const Program& p, int32_t k) { return p.buffers[p.inputs[p.states[k].input].buffer]; }
  static int32_t rank_of(const Program& p, int32_t k) { return buffer_of(p, k).rank; }
  static ScalarType dtype_of(const Program& p, int32_t k) { return buffer_of(p, k).dtype; }
  static const Extent& extent_of(const Program& p, int32_t k, int32_t axis) {
    return p.extents[buffer_of(p, k).first_dim + axis];
  }
  int64_t bytes(const Program& p, int32_t k) const { return bytes_of_dims(dtype_of(p, k), dims(k), rank_of(p, k)); }

  static bool no_memory(int64_t size, Failure& failure) {
    return failure.set(Status::out_of_memory, "no memory for %lld bytes of a state", static_cast<long long>(size));
  }
  // Kernels may read one vector beyond the last element.
  static bool reserve(Block& block, int64_t size, bool grows, Failure& failure) {
    if (size + alignment <= block.capacity()) return true;
    return block.reserve((grows ? 2 * size : size) + alignment) || no_memory(size, failure);
  }

  // Zeros, of the dims that the other inputs tell.
  bool begin_with_zeros(const Program& p, int32_t k, const InputView* inputs, Failure& failure) {
    for (int32_t axis = 0; axis < rank_of(p, k); ++axis) {
      const Extent& extent = extent_of(p, k, axis);
      own_dims(k)[axis] = extent.length == 0 ? extent.value : axis == p.states[k].axis ? 0 : dim_of(p, k, axis, inputs);
    }
    places_[k].set = true;
    if (!make_place(p, k, failure)) return places_[k].set = false;
    return p.states[k].capacity >= 0 || clear(at(k), bytes(p, k), failure);
  }

  static int32_t symbol_of(const Program& p, int32_t k, int32_t axis) {
    for (int32_t s = 0; s < p.source_count; ++s)
      if (p.sources[s].input == p.states[k].input && p.sources[s].axis == axis) return p.sources[s].symbol;
    return -1;
  }

  // What an open dim is by the caller's inputs; 1, or the least that it may be, where none has it.
  static int64_t dim_of(const Program& p, int32_t k, int32_t axis, const InputView* inputs) {
    const int32_t symbol = symbol_of(p, k, axis);
    // Where it has a name of its own: what the output's dim is, which must be as long.
    const Extent& made = p.extents[p.buffers[p.outputs[p.states[k].output].buffer].first_dim + axis];
    const bool named = made.length == 1 && p.code[made.value].code == Code::symbol;
    const int32_t other = named ? static_cast<int32_t>(p.code[made.value].value) : symbol;
    for (int32_t s = 0; s < p.source_count; ++s) {
      const SymbolSource& source = p.sources[s];
      if ((source.symbol == symbol || source.symbol == other) && source.input < p.input_count - p.state_count &&
          source.axis < inputs[source.input].rank)
        return inputs[source.input].dims[source.axis];
    }
    return symbol >= 0 && p.symbols[symbol].min > 1 ? p.symbols[symbol].min : 1;
  }

  // Memory for the dims it has; what it held is lost. The room behind it is zeros: what is masked may be multiplied by zero.
  bool make_place(const Program& p, int32_t k, Failure& failure) {
    Place& place = places_[k];
    if (p.states[k].capacity < 0) return reserve(place.now, bytes(p, k), false, failure);
    int64_t& length = own_dims(k)[p.states[k].axis];
    const int64_t steps = length;
    length = room_for(steps);
    const int64_t size = bytes(p, k), room = length;
    length = steps;
    if (size < 0 || size > most_bytes || !place.now.reserve(size + alignment)) return no_memory(size, failure);
    place.room = room;
    return clear(place.now.data(), size + alignment, failure);  // what a longer text has had stays as it is
  }

  static int64_t room_for(int64_t length) {
    int64_t room = least_room;
    while (room < length) room *= 2;
    return room;
  }

  // Storage that is longer: what is there moves, in the memory that there is where a longer text has left some.
  bool make_room(const Program& p, int32_t k, int64_t room, Failure& failure) {
    Place& place = places_[k];
    const int32_t axis = p.states[k].axis;
    const int64_t steps = dims(k)[axis];
    own_dims(k)[axis] = room;
    const int64_t size = bytes(p, k);
    own_dims(k)[axis] = steps;
    if (size < 0 || size > most_bytes) return no_memory(size, failure);
    const bool fits = size + alignment <= place.now.capacity();
    if (!fits && !place.next.reserve(size + alignment)) return no_memory(size, failure);
    const Rows rows = rows_of(p, k);
    const int64_t stride = rows.step * room, old_stride = rows.step * place.room;
    char* const to = static_cast<char*>(fits ? place.now.data() : place.next.data());
    if (!move(to, stride, at(k), {rows.count, rows.bytes, old_stride}, failure) ||
        !clear(to + rows.bytes, {rows.count, stride - rows.bytes, stride}, failure) || !clear(to + size, alignment, failure))
      return false;
    if (!fits) {
      place.now.take(place.next);
      place.next.clear();  // the old storage is given back
    }
    place.room = room;
    return true;
  }

  // The data of a state that grows: so many rows, each of so many bytes; step: the bytes of one step along the axis.
  struct Rows {
    int64_t count, step, bytes;
  };
  Rows rows_of(const Program& p, int32_t k) const {
    const int32_t axis = p.states[k].axis;
    Rows rows{1, size_of(dtype_of(p, k)), 0};
    for (int32_t a = 0; a < axis; ++a) rows.count *= dims(k)[a];
    for (int32_t a = axis + 1; a < rank_of(p, k); ++a) rows.step *= dims(k)[a];
    rows.bytes = rows.step * dims(k)[axis];
    return rows;
  }

  // What a state with a value takes, room included.
  int64_t stored_bytes(int32_t k) const {
    if (!has_room(*program_, k)) return bytes(k);
    const Rows rows = rows_of(*program_, k);
    return rows.count * rows.step * places_[k].room;
  }

  // Its elements where they are stored.
  Pieces stored_pieces(int32_t k) const {
    if (!has_room(*program_, k)) return {1, bytes(k), bytes(k)};
    const Rows rows = rows_of(*program_, k);
    return {rows.count, rows.bytes, rows.step * places_[k].room};
  }

  // A state without room keeps the first steps of each row.
  bool squeeze(const Program& p, int32_t k, int64_t length, Failure& failure) {
    const Rows rows = rows_of(p, k);
    return move(at(k), rows.step * length, at(k), {rows.count, rows.step * length, rows.bytes}, failure);
  }

  StatePlace where_ = states_on_host(nullptr);
  const Program* program_ = nullptr;
  int32_t count_ = 0, rank_ = 1;
  Array<Place> places_;
  Array<int64_t> dims_;
};

}  // namespace METAC_RUNTIME_NAMESPACE
