// Memory whose exhaustion is a result, not an exception: 64-byte aligned blocks and arrays of plain data.
#pragma once
#include <cstdlib>
#include <cstring>

#include "element.h"

namespace METAC_RUNTIME_NAMESPACE {

constexpr int64_t alignment = 64;
constexpr int64_t most_bytes = int64_t{1} << 46;  // larger requests are refused without asking the system

inline int64_t align_up(int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

// A block that only grows.
class Block {
 public:
  Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { std::free(data_); }

  void* data() const { return data_; }
  int64_t capacity() const { return capacity_; }

  // At least `bytes`; the first `keep` stay. False: no memory, the old block is untouched.
  bool reserve(int64_t bytes, int64_t keep = 0) {
    if (bytes <= capacity_ && data_ != nullptr) return true;
    if (bytes < 0 || bytes > most_bytes) return false;
    const int64_t size = align_up(bytes > 0 ? bytes : 1);
    void* fresh = std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(size));
    if (fresh == nullptr) return false;
    if (keep > 0) std::memcpy(fresh, data_, static_cast<size_t>(keep));
    std::free(data_);
    data_ = fresh;
    capacity_ = size;
    return true;
  }
  void take(Block& other) {  // the other's memory for ours
    void* const data = data_;
    const int64_t capacity = capacity_;
    data_ = other.data_;
    capacity_ = other.capacity_;
    other.data_ = data;
    other.capacity_ = capacity;
  }

 private:
  void* data_ = nullptr;
  int64_t capacity_ = 0;
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
