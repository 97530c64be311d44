// Memory whose exhaustion is a result, not an exception: 64-byte aligned blocks and arrays of plain data.
#pragma once
#include <cstdlib>
#include <cstring>
#include <utility>

#include "element.h"

namespace METAC_RUNTIME_NAMESPACE {

constexpr int64_t alignment = 64;
constexpr int64_t most_bytes = int64_t{1} << 46;  // larger requests are refused without asking the system

inline int64_t align_up(int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

// Who gives blocks their memory instead of the C library: `allocate` answers null where there is none.
struct Allocator {
  void* (*allocate)(void* user, size_t bytes, size_t alignment);
  void (*release)(void* user, void* memory, size_t bytes);
  void* user;
};

// A block that only grows.
class Block {
 public:
  Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { clear(); }

  // Before it has memory. `from` outlives the block; null: the C library.
  void take_from(const Allocator* from) { from_ = from; }

  void* data() const { return data_; }
  int64_t capacity() const { return capacity_; }

  // At least `bytes`; the first `keep` stay. False: no memory, the old block is untouched.
  bool reserve(int64_t bytes, int64_t keep = 0) {
    if (bytes <= capacity_ && data_ != nullptr) return true;
    if (bytes < 0 || bytes > most_bytes) return false;
    const int64_t size = align_up(bytes > 0 ? bytes : 1);
    void* fresh = from_ == nullptr ? std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(size))
                                   : from_->allocate(from_->user, static_cast<size_t>(size), static_cast<size_t>(alignment));
    if (fresh == nullptr) return false;
    if (keep > 0) std::memcpy(fresh, data_, static_cast<size_t>(keep));
    clear();
    data_ = fresh;
    capacity_ = size;
    return true;
  }
  // Gives back its memory.
  void clear() {
    if (from_ == nullptr)
      std::free(data_);
    else if (data_ != nullptr)
      from_->release(from_->user, data_, static_cast<size_t>(capacity_));
    data_ = nullptr;
    capacity_ = 0;
  }
  void take(Block& other) {  // the other's memory for ours, and where it is from
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
    std::swap(from_, other.from_);
  }

 private:
  void* data_ = nullptr;
  int64_t capacity_ = 0;
  const Allocator* from_ = nullptr;
};

// A fixed number of values that all-zero bytes begin (plain data, Blocks).
template <typename T>
class Array {
 public:
  Array() = default;
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { release(); }

  bool allocate(int64_t count) {
    release();
    data_ = static_cast<T*>(std::calloc(static_cast<size_t>(count > 0 ? count : 1), sizeof(T)));
    count_ = data_ == nullptr ? 0 : count;
    return data_ != nullptr;
  }
  T& operator[](int64_t i) { return data_[i]; }
  const T& operator[](int64_t i) const { return data_[i]; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  int64_t size() const { return count_; }

 private:
  void release() {
    for (int64_t i = 0; i < count_; ++i) data_[i].~T();
    std::free(data_);
    count_ = 0;
  }
  T* data_ = nullptr;
  int64_t count_ = 0;
};

inline int64_t size_of(ScalarType type) {  // 0: strings
  return with_element(type, [](auto element) { return static_cast<int64_t>(sizeof element); });
}

inline const char* dtype_name(ScalarType type) {
#define ROW(id, name, ...) name,
  static const char* const names[] = {METAC_DTYPES(ROW)};
#undef ROW
  return names[static_cast<int32_t>(type)];
}

// Product of the dims times the element size; -1 where it overflows or a dim is negative.
inline int64_t bytes_of_dims(ScalarType type, const int64_t* dims, int32_t rank) {
  int64_t bytes = size_of(type);
  for (int32_t axis = 0; axis < rank; ++axis)
    if (dims[axis] < 0 || __builtin_mul_overflow(bytes, dims[axis], &bytes)) return -1;
  return bytes;
}

}  // namespace METAC_RUNTIME_NAMESPACE
