// The little JSON that headers of files and options need: texts are quoted, documents read. Written here: programs that
// include metac's headers need no other library. A document is not trusted: everything is checked, and its depth has a
// limit. Errors are Error with METAC_MODEL.
#pragma once
#include <cctype>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../metac.hpp"

namespace metac::detail {

inline std::string json_quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      result += std::string("\\") + c;
    else if (static_cast<unsigned char>(c) < 0x20)
      result += std::string("\\u00") + (c < 0x10 ? '0' : '1') + "0123456789abcdef"[c & 15];
    else
      result += c;
  }
  return result + "\"";
}

struct JsonMember;
struct JsonValue {
  enum Kind { null, truth, number, text, list, object } kind = null;
  std::string words;                // of a text; of numbers and truths as they are written
  std::vector<JsonValue> items;     // of a list
  std::vector<JsonMember> members;  // of an object

  const JsonValue* find(std::string_view name) const;
  // False where it is no integer of 64 bits.
  bool integer(int64_t& value) const {
    const auto [end, error] = std::from_chars(words.data(), words.data() + words.size(), value);
    return kind == number && error == std::errc() && end == words.data() + words.size();
  }
};

struct JsonMember {
  std::string name;
  JsonValue value;
};
inline const JsonValue* JsonValue::find(std::string_view name) const {
  for (const JsonMember& member : members)
    if (member.name == name) return &member.value;
  return nullptr;
}

class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}
  JsonValue document() {
    JsonValue value = any(0);
    space();
    if (at_ != text_.size()) fail("something behind the end");
    return value;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(METAC_MODEL, "JSON at byte " + std::to_string(at_) + ": " + what);
  }
  void space() {
    while (at_ < text_.size() && std::string_view(" \t\n\r").find(text_[at_]) != std::string_view::npos) ++at_;
  }
  bool next_is(char c) {
    space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void need(char c) {
    if (!next_is(c)) fail(std::string("a '") + c + "' is missing");
  }

  JsonValue any(int depth) {
    if (depth > 32) fail("too deep");
    JsonValue value;
    if (next_is('{')) {
      value.kind = JsonValue::object;
      while (!next_is('}')) {
        if (!value.members.empty()) need(',');
        need('"');
        std::string name = text();
        need(':');
        value.members.push_back({std::move(name), any(depth + 1)});
      }
    } else if (next_is('[')) {
      value.kind = JsonValue::list;
      while (!next_is(']')) {
        if (!value.items.empty()) need(',');
        value.items.push_back(any(depth + 1));
      }
    } else if (next_is('"')) {
      value.kind = JsonValue::text, value.words = text();
    } else {
      const size_t begin = at_;
      while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) ||
                                    std::string_view("+-.").find(text_[at_]) != std::string_view::npos))
        ++at_;
      value.words = text_.substr(begin, at_ - begin);
      if (value.words == "true" || value.words == "false")
        value.kind = JsonValue::truth;
      else if (!value.words.empty() && (value.words[0] == '-' || std::isdigit(static_cast<unsigned char>(value.words[0]))))
        value.kind = JsonValue::number;
      else if (value.words != "null")
        fail("no value");
    }
    return value;
  }

  // Behind the opening quotation mark.
  std::string text() {
    std::string result;
    for (;;) {
      if (at_ >= text_.size()) fail("a text does not end");
      const char c = text_[at_++];
      if (c == '"') return result;
      if (static_cast<unsigned char>(c) < 0x20) fail("a control character in a text");
      if (c != '\\') {
        result += c;
        continue;
      }
      if (at_ >= text_.size()) fail("a text does not end");
      const char escaped = text_[at_++];
      const size_t known = std::string_view("\"\\/bfnrt").find(escaped);
      if (known != std::string_view::npos)
        result += "\"\\/\b\f\n\r\t"[known];
      else if (escaped == 'u')
        append_utf8(result, code_point());
      else
        fail("an unknown escape");
    }
  }
  uint32_t four_digits() {
    uint32_t value = 0;
    const char* const begin = text_.data() + at_;
    if (text_.size() - at_ < 4 || std::from_chars(begin, begin + 4, value, 16).ptr != begin + 4) fail("no \\uXXXX");
    at_ += 4;
    return value;
  }
  uint32_t code_point() {
    const uint32_t first = four_digits();
    if (first < 0xD800 || first > 0xDFFF) return first;
    if (first > 0xDBFF || text_.substr(at_, 2) != "\\u") fail("half a surrogate pair");
    at_ += 2;
    const uint32_t second = four_digits();
    if (second < 0xDC00 || second > 0xDFFF) fail("half a surrogate pair");
    return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
  }
  static void append_utf8(std::string& result, uint32_t c) {
    const int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    const uint32_t marks[] = {0, 0xC0, 0xE0, 0xF0};
    result += static_cast<char>(marks[more] | (c >> (6 * more)));
    for (int k = more - 1; k >= 0; --k) result += static_cast<char>(0x80 | ((c >> (6 * k)) & 0x3F));
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace metac::detail
