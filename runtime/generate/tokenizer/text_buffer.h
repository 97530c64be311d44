// Bytes that grow; a failure to get memory is a result. And UTF-8, which all texts are.
#pragma once
#include "../../memory.h"

namespace METAC_RUNTIME_NAMESPACE {

class TextBuffer {
 public:
  const char* data() const { return static_cast<const char*>(block_.data()); }
  char* data() { return static_cast<char*>(block_.data()); }
  int64_t size() const { return count_; }
  void clear() { count_ = 0; }
  void cut(int64_t count) { count_ = count; }
  void drop_front(int64_t count) {
    if (count > 0) std::memmove(data(), data() + count, static_cast<size_t>(count_ - count));
    count_ -= count;
  }
  bool append(const char* bytes, int64_t count) {
    const int64_t wanted = count_ + count;
    if (wanted > block_.capacity() && !block_.reserve(2 * wanted + 64, count_)) return false;
    if (count > 0) std::memcpy(data() + count_, bytes, static_cast<size_t>(count));
    count_ = wanted;
    return true;
  }
  void swap(TextBuffer& other) {
    block_.take(other.block_);
    const int64_t count = count_;
    count_ = other.count_;
    other.count_ = count;
  }

 private:
  Block block_;
  int64_t count_ = 0;
};

// How many bytes the code point at `at` has; 0: it is none there (cut short, overlong, a surrogate, beyond U+10FFFF).
inline int code_point_at(const char* at, const char* end, uint32_t* code) {
  const auto byte = [&](int k) { return static_cast<unsigned char>(at[k]); };
  if (at >= end) return 0;
  if (byte(0) < 0x80) return *code = byte(0), 1;
  const int bytes = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || end - at < bytes) return 0;
  uint32_t made = byte(0) & (0x7fu >> bytes);
  for (int k = 1; k < bytes; ++k) {
    if ((byte(k) & 0xc0) != 0x80) return 0;
    made = made << 6 | (byte(k) & 0x3fu);
  }
  if ((bytes == 3 && (made < 0x800 || (made >= 0xd800 && made < 0xe000))) ||
      (bytes == 4 && (made < 0x10000 || made > 0x10ffff)))
    return 0;
  return *code = made, bytes;
}

inline bool append_code_point(TextBuffer& text, uint32_t code) {
  char bytes[4];
  int count = 0;
  if (code < 0x80)
    bytes[count++] = static_cast<char>(code);
  else if (code < 0x800)
    bytes[count++] = static_cast<char>(0xc0 | code >> 6);
  else if (code < 0x10000)
    bytes[count++] = static_cast<char>(0xe0 | code >> 12), bytes[count++] = static_cast<char>(0x80 | (code >> 6 & 0x3f));
  else {
    bytes[count++] = static_cast<char>(0xf0 | code >> 18);
    bytes[count++] = static_cast<char>(0x80 | (code >> 12 & 0x3f));
    bytes[count++] = static_cast<char>(0x80 | (code >> 6 & 0x3f));
  }
  if (code >= 0x80) bytes[count++] = static_cast<char>(0x80 | (code & 0x3f));
  return text.append(bytes, count);
}

// Where the first byte stands that is no UTF-8; -1: nowhere.
inline int64_t first_bad_byte(const char* text, int64_t count) {
  uint32_t code;
  for (int64_t at = 0; at < count;) {
    const int bytes = code_point_at(text + at, text + count, &code);
    if (bytes == 0) return at;
    at += bytes;
  }
  return -1;
}

}  // namespace METAC_RUNTIME_NAMESPACE
