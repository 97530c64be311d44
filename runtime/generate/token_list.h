// A list of tokens that grows; a failure to get memory is a result.
#pragma once
#include <cstring>

#include "../memory.h"

namespace METAC_RUNTIME_NAMESPACE {

class TokenList {
 public:
  int64_t size() const { return count_; }
  const int64_t* data() const { return static_cast<const int64_t*>(block_.data()); }
  int64_t operator[](int64_t i) const { return data()[i]; }

  // Memory for so many in all.
  bool reserve(int64_t count) {
    if (count < 0 || count > most_bytes / 16) return false;
    const int64_t bytes = count * int64_t{sizeof(int64_t)};
    if (bytes <= block_.capacity()) return true;
    const int64_t doubled = 2 * block_.capacity();
    return block_.reserve(bytes > doubled ? bytes : doubled, count_ * int64_t{sizeof(int64_t)});
  }
  bool append(const int64_t* tokens, int64_t count) {
    if (!reserve(count_ + count)) return false;
    if (count > 0)
      std::memcpy(static_cast<int64_t*>(block_.data()) + count_, tokens, static_cast<size_t>(count) * sizeof(int64_t));
    count_ += count;
    return true;
  }
  bool append(int64_t token) { return append(&token, 1); }
  void truncate(int64_t count) { count_ = count < count_ ? count : count_; }
  bool copy(const TokenList& other) {
    count_ = 0;
    return append(other.data(), other.size());
  }

 private:
  Block block_;
  int64_t count_ = 0;
};

}  // namespace METAC_RUNTIME_NAMESPACE
