// The values that outlive a step, twice: the present ones and those that the next step writes. After a good step the two are
// swapped; after a bad one nothing has happened. States that no step writes are there once, and so are those that every step
// may overwrite (Port::overwrites) where a bad step ends the run anyhow.
#pragma once
#include <algorithm>
#include <memory>
#include <vector>

#include "data/data_files.h"
#include "data/element_types.h"
#include "record/crc32.h"

namespace metac::train {

using METAC_RUNTIME_NAMESPACE::Block;

// Memory of one state, where the tables say that states live.
class StateBlock {
 public:
  StateBlock(const StateMemory* memory, int64_t bytes) : memory_(memory) {
    if (memory_ != nullptr)
      data_ = memory_->take(bytes);
    else if (block_.reserve(bytes))
      data_ = block_.data();
  }
  StateBlock(const StateBlock&) = delete;
  StateBlock& operator=(const StateBlock&) = delete;
  ~StateBlock() {
    if (memory_ != nullptr && data_ != nullptr) memory_->give(data_);
  }
  void* data() const { return data_; }  // null: there is none

 private:
  const StateMemory* memory_;
  Block block_;
  void* data_ = nullptr;
};

class StateSet {
 public:
  // `overwrite`: a step that goes wrong may have changed states.
  explicit StateSet(const TrainTables& tables, bool overwrite = false)
      : tables_(tables), overwrite_(overwrite), values_(static_cast<size_t>(tables.state_count)) {
    for (int32_t s = 0; s < tables.state_count; ++s) reserve(&now(s), s);
    find_overwritten(tables.step);
    for (int32_t k = 0; k < tables.further_count; ++k) find_overwritten(tables.further[k].library);
    reserve_next(tables.step);
    for (int32_t k = 0; k < tables.further_count; ++k) reserve_next(tables.further[k].library);
  }

  int32_t count() const { return tables_.state_count; }
  const State& about(int32_t s) const { return tables_.states[s]; }
  void* value(int32_t s) { return now(s)->data(); }
  const void* value(int32_t s) const { return values_[static_cast<size_t>(s)].now->data(); }
  void* next_value(int32_t s) {
    return values_[static_cast<size_t>(s)].next ? values_[static_cast<size_t>(s)].next->data() : value(s);
  }
  // Whether a step that went wrong may have left something behind.
  bool overwritten() const {
    return std::any_of(values_.begin(), values_.end(),
                       [](const Value& value) { return value.written && value.overwritten; });
  }
  bool written(int32_t s) const { return values_[static_cast<size_t>(s)].written; }

  // Behind a good step of `library`.
  void swap(const Library& library) {
    for (int32_t o = 0; o < library.output_count; ++o)
      if (library.outputs[o].source == Source::state) {
        Value& value = values_[static_cast<size_t>(library.outputs[o].index)];
        if (value.next) value.now.swap(value.next);
      }
  }

  // The values before the first update, from initial.bin in `folder`.
  void load_initial(const std::string& folder) {
    const auto file = initial_file(tables_, folder);
    for (int32_t s = 0; s < count(); ++s) {
      std::memcpy(value(s), file->data + about(s).offset, static_cast<size_t>(byte_count(about(s))));
      file->forget();
    }
  }

  // Behind the last step: only the present values stay.
  void drop_next() {
    for (Value& value : values_) value.next.reset();
  }

  // What is in no final network goes: the inference library needs as much memory to make its weights.
  void keep_final() {
    drop_next();
    for (int32_t s = 0; s < count(); ++s)
      if (about(s).role == StateRole::optimiser || about(s).role == StateRole::counter || about(s).role == StateRole::kept)
        now(s).reset();
  }

  static std::shared_ptr<FileBytes> initial_file(const TrainTables& tables, const std::string& folder) {
    auto file = map_file(below(folder, tables.initial_file));
    if (static_cast<int64_t>(file->size) != tables.initial_bytes)
      fail(file->path, " has ", file->size, " bytes, not ", tables.initial_bytes, ": it belongs to another program");
    constexpr size_t at_once = size_t{8} << 20;  // of the file in memory
    uint32_t crc = 0;
    for (size_t at = 0; at < file->size; at += at_once, file->forget())
      crc = crc32(file->data + at, std::min(at_once, file->size - at), crc);
    if (crc != tables.initial_crc) fail(file->path, " is damaged or belongs to another program (checksum)");
    return file;
  }

  // Where evaluation and export take state `s` from: its average, if it has one.
  int32_t final_of(int32_t s) const {
    for (int32_t a = 0; a < count(); ++a)
      if (about(a).role == StateRole::average && about(a).partner == s) return a;
    return s;
  }

 private:
  struct Value {
    std::unique_ptr<StateBlock> now, next;
    bool written = false, overwritten = true;
  };
  void find_overwritten(const Library& library) {
    for (int32_t o = 0; o < library.output_count; ++o) {
      const Port& port = library.outputs[o];
      if (port.source == Source::state && !(overwrite_ && port.overwrites))
        values_[static_cast<size_t>(port.index)].overwritten = false;
    }
  }
  void reserve_next(const Library& library) {
    for (int32_t o = 0; o < library.output_count; ++o) {
      const Port& port = library.outputs[o];
      if (port.source != Source::state || values_[static_cast<size_t>(port.index)].written) continue;
      values_[static_cast<size_t>(port.index)].written = true;
      if (!values_[static_cast<size_t>(port.index)].overwritten)
        reserve(&values_[static_cast<size_t>(port.index)].next, port.index);
    }
  }
  std::unique_ptr<StateBlock>& now(int32_t s) { return values_[static_cast<size_t>(s)].now; }
  void reserve(std::unique_ptr<StateBlock>* block, int32_t s) {
    *block = std::make_unique<StateBlock>(tables_.memory, byte_count(about(s)));
    if ((*block)->data() != nullptr) return;
    if (tables_.memory != nullptr)
      fail(tables_.memory->reason(), ", asked for memory for ", quoted(about(s).name), ": ", byte_count(about(s)), " bytes");
    fail("no memory for ", quoted(about(s).name), ": ", byte_count(about(s)), " bytes");
  }

  const TrainTables& tables_;
  const bool overwrite_;
  std::vector<Value> values_;
};

}  // namespace metac::train
