// Values as bytes and back, for what processes of one build leave to each other in files. A struct names its fields once,
// for both ways, and the compiler sees that none is left out:
//
//   template <class Archive>
//   void fields(Archive& archive, Extent& extent) {
//     auto& [value, length] = extent;
//     archive(value, length);
//   }
//
// Numbers are as they lie in memory: who reads must be of the same build (compiler/support/build_id.h).
#pragma once
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace metac {

template <class T>
constexpr bool is_plain_number = std::is_arithmetic_v<T> || std::is_enum_v<T>;

class ByteWriter {
 public:
  template <class... T>
  void operator()(const T&... values) {
    (write(values), ...);
  }
  void raw(const void* data, size_t bytes) { bytes_.append(static_cast<const char*>(data), bytes); }
  const std::string& bytes() const { return bytes_; }

 private:
  template <class T>
  void write(const T& value) {
    if constexpr (is_plain_number<T>)
      raw(&value, sizeof value);
    else
      fields(*this, const_cast<T&>(value));
  }
  void write(const std::string& text) {
    write(text.size());
    raw(text.data(), text.size());
  }
  template <class T>
  void write(const std::vector<T>& values) {
    write(values.size());
    for (const T& value : values) write(value);
  }
  template <class T>
  void write(const std::set<T>& values) {
    write(values.size());
    for (const T& value : values) write(value);
  }
  template <class A, class B>
  void write(const std::pair<A, B>& pair) {
    (*this)(pair.first, pair.second);
  }
  template <class K, class T>
  void write(const std::map<K, T>& values) {
    write(values.size());
    for (const auto& [key, value] : values) (*this)(key, value);
  }
  template <class T>
  void write(const std::optional<T>& value) {
    write(value.has_value());
    if (value) write(*value);
  }
  template <class T>
  void write(const std::shared_ptr<T>& value) {
    write(value != nullptr);
    if (value) write(*value);
  }

  std::string bytes_;
};

// What does not fit reads as zeros, and ok() tells.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}
  template <class... T>
  void operator()(T&... values) {
    (read(values), ...);
  }
  // The next bytes, in place; null where there are not so many.
  const char* raw(size_t bytes) {
    if (bytes > rest_.size()) ok_ = false;
    if (!ok_) return nullptr;
    const char* const data = rest_.data();
    rest_.remove_prefix(bytes);
    return data;
  }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && rest_.empty(); }

 private:
  // A count that the rest cannot hold would ask for all memory.
  size_t count() {
    size_t count = 0;
    read(count);
    if (count > rest_.size()) ok_ = false;
    return ok_ ? count : 0;
  }
  template <class T>
  void read(T& value) {
    if constexpr (is_plain_number<T>) {
      value = T();
      if (const char* data = raw(sizeof value)) std::memcpy(&value, data, sizeof value);
    } else {
      fields(*this, value);
    }
  }
  void read(std::string& text) {
    const size_t size = count();
    if (const char* data = raw(size)) text.assign(data, size);
  }
  template <class T>
  void read(std::vector<T>& values) {
    values.resize(count());
    for (T& value : values) read(value);
  }
  template <class T>
  void read(std::set<T>& values) {
    values.clear();
    for (size_t left = count(); left > 0 && ok_; --left) {
      T value{};
      read(value);
      values.insert(std::move(value));
    }
  }

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace metac
