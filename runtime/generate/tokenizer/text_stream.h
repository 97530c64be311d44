// From tokens to text, as they come: what is given out is whole code points, and holds nothing that might begin a stop text.
#pragma once
#include "table.h"
#include "text_buffer.h"

namespace METAC_RUNTIME_NAMESPACE {

class TextStream {
 public:
  // drop_space: the text begins here, and a tokenizer that puts a space in front of texts takes it away again.
  TextStream(const TokenizerTable& table, const char* const* stops, int64_t stop_count, bool drop_space)
      : table_(table),
        stops_(stops),
        stop_count_(stop_count),
        drop_space_(drop_space && (table.flags & TokenizerTable::drop_first_space) != 0) {}

  // Takes a token. False: no memory.
  bool take(int64_t token) {
    if (token < 0 || token >= static_cast<int64_t>(table_.tokens)) return true;
    const TableText& spoken = table_.of<TableText>(table_.spoken)[token];
    const char* text = table_.text_at(spoken);
    int64_t bytes = spoken.bytes;
    if (drop_space_ && bytes > 0) {
      drop_space_ = false;
      if (*text == ' ') ++text, --bytes;
    }
    return raw_.append(text, bytes) && to_utf8(false);
  }
  // Nothing more comes: what is left of a code point becomes U+FFFD, and nothing is held back.
  bool finish() {
    if (!to_utf8(true)) return false;
    certain_ = stopped_ >= 0 ? certain_ : text_.size();
    return true;
  }

  // What has become certain since told() was called.
  const char* text() const { return text_.data(); }
  int64_t bytes() const { return certain_; }
  void told() {
    text_.drop_front(certain_);
    certain_ = 0;
  }
  // Which stop text came; -1: none. What is certain ends in front of it.
  int64_t stopped() const { return stopped_; }

 private:
  // Whole code points go on; of what is none its longest part that might have begun one becomes U+FFFD.
  bool to_utf8(bool all) {
    const char *at = raw_.data(), *end = at + raw_.size();
    while (at < end) {
      uint32_t code;
      const int bytes = code_point_at(at, end, &code);
      if (bytes > 0) {
        if (!text_.append(at, bytes)) return false;
        at += bytes;
        continue;
      }
      const int64_t part = begun(at, end);
      if (!all && at + part == end && may_go_on(at, part)) break;
      if (!append_code_point(text_, 0xfffd)) return false;
      at += part;
    }
    raw_.drop_front(at - raw_.data());
    if (stopped_ < 0) look_for_stops();
    return true;
  }
  // Bytes that begin a code point and are cut off by what follows; at least 1.
  static int64_t begun(const char* at, const char* end) {
    const auto byte = [&](int64_t k) { return static_cast<unsigned char>(at[k]); };
    if (byte(0) < 0xc2 || byte(0) > 0xf4) return 1;
    const int64_t length = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
    int64_t k = 1;
    for (; k < length && at + k < end; ++k) {
      const unsigned char low = k > 1 ? 0x80 : byte(0) == 0xe0 ? 0xa0 : byte(0) == 0xf0 ? 0x90 : 0x80;
      const unsigned char high = k > 1 ? 0xbf : byte(0) == 0xed ? 0x9f : byte(0) == 0xf4 ? 0x8f : 0xbf;
      if (byte(k) < low || byte(k) > high) break;
    }
    return k;
  }
  static bool may_go_on(const char* at, int64_t part) {
    const unsigned char first = static_cast<unsigned char>(*at);
    return first >= 0xc2 && first <= 0xf4 && part < (first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2);
  }

  void look_for_stops() {
    int64_t earliest = text_.size(), held = text_.size();
    for (int64_t k = 0; k < stop_count_; ++k) {
      const int64_t length = static_cast<int64_t>(std::strlen(stops_[k]));
      for (int64_t at = certain_; length > 0 && at < earliest; ++at) {
        const int64_t there = text_.size() - at < length ? text_.size() - at : length;
        if (std::memcmp(text_.data() + at, stops_[k], static_cast<size_t>(there)) != 0) continue;
        if (there == length)
          earliest = at, stopped_ = k;
        else if (at < held)
          held = at;
      }
    }
    certain_ = stopped_ >= 0 ? earliest : held;
  }

  const TokenizerTable& table_;
  const char* const* const stops_;
  const int64_t stop_count_;
  bool drop_space_;
  TextBuffer raw_, text_;
  int64_t certain_ = 0, stopped_ = -1;
};

}  // namespace METAC_RUNTIME_NAMESPACE
