// The little JSON that the trainer reads back: headers of safetensors files, lines of the log, as files/json_text.h writes
// them. Written here and not taken from a library because generated projects need nothing but the standard library; the
// compiler itself uses nlohmann/json.
#pragma once
#include <cstring>
#include <locale>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "fault.h"

namespace metac::train {

struct JsonMember;

struct Json {
  enum class Kind { null, boolean, number, string, array, object };
  Kind kind = Kind::null;
  double number = 0;   // of a boolean: 0 or 1
  std::string string;  // a number's: as it stands in the text
  std::vector<Json> items;
  std::vector<JsonMember> members;  // in the order of the text, no name twice

  const Json* find(const std::string& name) const;
};

struct JsonMember {
  std::string name;
  Json value;
};

inline const Json* Json::find(const std::string& name) const {
  for (const JsonMember& member : members)
    if (member.name == name) return &member.value;
  return nullptr;
}

// Strict: what is not JSON is a Fault, as are names that come twice, more than 32 levels, and text behind the value.
class JsonReader {
 public:
  static Json read(const char* begin, const char* end) {
    JsonReader reader(begin, end);
    Json value = reader.value(0);
    reader.space();
    if (reader.at_ != end) reader.wrong("something follows the value");
    return value;
  }

 private:
  JsonReader(const char* begin, const char* end) : begin_(begin), at_(begin), end_(end) {}

  [[noreturn]] void wrong(const char* what) const { fail("no JSON at byte ", at_ - begin_, ": ", what); }
  void space() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }
  char next() {
    space();
    if (at_ == end_) wrong("it ends too early");
    return *at_;
  }
  void take(char c) {
    if (next() != c) wrong("another character was expected");
    ++at_;
  }
  bool word(const char* text) {
    const size_t length = std::strlen(text);
    if (static_cast<size_t>(end_ - at_) < length || std::memcmp(at_, text, length) != 0) return false;
    at_ += length;
    return true;
  }

  Json value(int depth) {
    if (depth > 32) wrong("too many levels");
    Json v;
    const char c = next();
    if (c == '{') {
      v.kind = Json::Kind::object;
      std::map<std::string, bool> names;
      for (++at_; next() != '}';) {
        if (!v.members.empty()) take(',');
        if (next() != '"') wrong("a name was expected");
        std::string name = text();
        if (!names.emplace(name, true).second) wrong("a name comes twice");
        take(':');
        v.members.push_back({std::move(name), value(depth + 1)});
      }
      ++at_;
    } else if (c == '[') {
      v.kind = Json::Kind::array;
      for (++at_; next() != ']';) {
        if (!v.items.empty()) take(',');
        v.items.push_back(value(depth + 1));
      }
      ++at_;
    } else if (c == '"') {
      v.kind = Json::Kind::string;
      v.string = text();
    } else if (word("true")) {
      v.kind = Json::Kind::boolean;
      v.number = 1;
    } else if (word("false")) {
      v.kind = Json::Kind::boolean;
    } else if (!word("null")) {
      v.kind = Json::Kind::number;
      while (at_ != end_ && (std::strchr("+-.eE", *at_) != nullptr || (*at_ >= '0' && *at_ <= '9')) && *at_ != 0)
        v.string += *at_++;
      std::istringstream in(v.string);
      in.imbue(std::locale::classic());
      if (v.string.empty() || !(in >> v.number) || in.peek() != std::char_traits<char>::eof()) wrong("a value was expected");
    }
    return v;
  }

  std::string text() {
    std::string out;
    for (++at_; at_ != end_ && *at_ != '"'; ++at_) {
      if (static_cast<unsigned char>(*at_) < 32) wrong("a control character in a string");
      if (*at_ != '\\') {
        out += *at_;
        continue;
      }
      if (++at_ == end_) break;
      static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
      if (const char* found = *at_ != 0 ? std::strchr(from, *at_) : nullptr)
        out += to[found - from];
      else if (*at_ == 'u')
        out += code_point();
      else
        wrong("an unknown escape");
    }
    if (at_ == end_) wrong("a string does not end");
    ++at_;
    return out;
  }

  // The four hexadecimal digits behind \u.
  unsigned code_unit() {
    unsigned unit = 0;
    for (int k = 0; k < 4; ++k) {
      if (++at_ == end_) wrong("a string does not end");
      const char c = *at_;
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) wrong("an unknown escape");
      unit = unit * 16 + static_cast<unsigned>(digit);
    }
    return unit;
  }

  // \uXXXX, or two of them that are the halves of a surrogate pair, as UTF-8.
  std::string code_point() {
    unsigned code = code_unit();
    if (code >= 0xd800 && code < 0xe000) {
      const bool pair = code < 0xdc00 && end_ - at_ > 2 && at_[1] == '\\' && at_[2] == 'u';
      if (pair) at_ += 2;
      const unsigned low = pair ? code_unit() : 0;
      if (low < 0xdc00 || low >= 0xe000) wrong("half of a surrogate pair");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    auto tail = [&](int shift) { return static_cast<char>(0x80 | (code >> shift & 63)); };
    if (code < 0x80) return std::string(1, static_cast<char>(code));
    if (code < 0x800) return {static_cast<char>(0xc0 | code >> 6), tail(0)};
    if (code < 0x10000) return {static_cast<char>(0xe0 | code >> 12), tail(6), tail(0)};
    return {static_cast<char>(0xf0 | code >> 18), tail(12), tail(6), tail(0)};
  }

  const char *begin_, *at_, *end_;
};

}  // namespace metac::train
